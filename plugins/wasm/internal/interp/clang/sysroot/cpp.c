// What the library of C++ lacks when it is built without exceptions: its operator
// new returns a null pointer, which nobody looks at and which is a valid address.
// These are weak, so that a program may have its own.
#include <stdio.h>
#include <stdlib.h>

static void *allocate(size_t n) {
	void *p = malloc(n ? n : 1);
	if (!p) {
		fputs("terminate called after throwing an instance of 'std::bad_alloc'\n", stderr);
		abort();
	}
	return p;
}

// operator new(size_t) and operator new[](size_t)
__attribute__((weak)) void *_Znwm(size_t n) { return allocate(n); }
__attribute__((weak)) void *_Znam(size_t n) { return allocate(n); }

// operator new(size_t, const std::nothrow_t &) and operator new[]
__attribute__((weak)) void *_ZnwmRKSt9nothrow_t(size_t n, const void *t) { return malloc(n ? n : 1); }
__attribute__((weak)) void *_ZnamRKSt9nothrow_t(size_t n, const void *t) { return malloc(n ? n : 1); }
