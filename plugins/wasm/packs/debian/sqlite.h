/* What SQLite takes from POSIX and WASI does not have. It is included ahead of
 * SQLite's own source.
 *
 * A sandbox runs one process, so no other can hold a lock on a file: locks are
 * always granted, and SQLite's own bookkeeping keeps the connections within the
 * process apart. There are no users, owners and permissions.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2
#define F_GETLK 100
#define F_SETLK 101

static int caisson_fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  int result = 0;
  if (command == F_GETLK) {
    va_arg(rest, struct flock *)->l_type = F_UNLCK;
  } else if (command != F_SETLK) {
    result = fcntl(fd, command, va_arg(rest, int));
  }
  va_end(rest);
  return result;
}
#define fcntl caisson_fcntl

static int fchmod(int fd, mode_t mode) { return 0; }
static int fchown(int fd, uid_t owner, gid_t group) { return 0; }
static uid_t geteuid(void) { return 1; }
