// The start of every program. The library's own leaves argv without the null pointer
// at its end, and finds nothing by relative paths: they are taken here as below the
// directory of the caller's files.
#include <stdlib.h>
#include <string.h>
#include <wasi/core.h>

extern void __wasilibc_init_preopen(void);
extern int __wasilibc_register_preopened_fd(int fd, const char *prefix);
extern void __wasm_call_ctors(void);
extern void __prepare_for_exit(void);
extern char **__environ;
extern int main(int, char **);

static _Noreturn void fail(void) { _Exit(71); }

// strings allocates a list of n strings with a null pointer at its end, and room for
// their bytes.
static char **strings(size_t n, size_t bytes, char **buffer) {
	char **list = calloc(n + 1, sizeof *list);
	*buffer = malloc(bytes + 1);
	if (!list || !*buffer) fail();
	return list;
}

// directories makes the directories known. The library takes the last one that a path
// begins with, so the root comes before those below it, and what is for relative paths,
// with which an absolute one begins too, before both.
static void directories(void) {
	enum { relative, root, rest, end };
	__wasi_prestat_t p;
	for (int kind = relative; kind < end; kind++) {
		for (int fd = 3; !__wasi_fd_prestat_get(fd, &p); fd++) {
			size_t n = p.u.dir.pr_name_len;
			char *name = malloc(n + 1);
			if (!name || __wasi_fd_prestat_dir_name(fd, name, n)) fail();
			name[n] = 0;
			int is_root = !strcmp(name, "/");
			if (kind == relative && !strcmp(name, "/mnt/data") && __wasilibc_register_preopened_fd(fd, "")) fail();
			if (kind == (is_root ? root : rest) && __wasilibc_register_preopened_fd(fd, name)) fail();
			free(name);
		}
	}
}

void _start(void) {
	size_t n, bytes;
	char *buffer;
	__wasilibc_init_preopen();
	directories();
	if (__wasi_environ_sizes_get(&n, &bytes)) fail();
	__environ = strings(n, bytes, &buffer);
	if (__wasi_environ_get(__environ, buffer)) fail();
	if (__wasi_args_sizes_get(&n, &bytes)) fail();
	char **argv = strings(n, bytes, &buffer);
	if (__wasi_args_get(argv, buffer)) fail();
	__wasm_call_ctors();
	int code = main(n, argv);
	__prepare_for_exit();
	if (code) _Exit(code);
}
