/* Loaded before the C library: a clock that a test turns, and a disk that fails. Both obey a file that is mapped. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { NONE, FULL, READ, SYNC };

struct orders {
  int64_t seconds;   /* that the time of day is ahead; waits of the C library go by another clock, which is left alone */
  int32_t fault;
  int32_t hits;
  char place[512];   /* part of the path of a file that fails */
};

static struct orders *orders;

__attribute__((constructor)) static void map(void) {
  const char *path = getenv("NIGHTS_ORDERS");
  int descriptor = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (descriptor < 0) return;
  void *found = mmap(NULL, sizeof *orders, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (found != MAP_FAILED) orders = found;
}

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

int clock_gettime(clockid_t clock, struct timespec *now) {
  REAL(int, clock_gettime, clockid_t, struct timespec *);
  int code = real(clock, now);
  if (orders && code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += orders->seconds;
  return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  REAL(int, gettimeofday, struct timeval *, void *);
  int code = real(now, zone);
  if (orders && code == 0) now->tv_sec += orders->seconds;
  return code;
}

time_t time(time_t *into) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (into) *into = now.tv_sec;
  return now.tv_sec;
}

static int fails(int32_t fault, int descriptor) {
  if (!orders || orders->fault != fault) return 0;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  if (!strstr(path, orders->place)) return 0;
  __atomic_add_fetch(&orders->hits, 1, __ATOMIC_SEQ_CST);
  errno = fault == FULL ? ENOSPC : EIO;
  return 1;
}

ssize_t write(int file, const void *from, size_t size) {
  REAL(ssize_t, write, int, const void *, size_t);
  return fails(FULL, file) ? -1 : real(file, from, size);
}

ssize_t pwrite64(int file, const void *from, size_t size, off64_t at) {
  REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
  return fails(FULL, file) ? -1 : real(file, from, size, at);
}

ssize_t pwrite(int file, const void *from, size_t size, off_t at) { return pwrite64(file, from, size, at); }

ssize_t writev(int file, const struct iovec *from, int count) {
  REAL(ssize_t, writev, int, const struct iovec *, int);
  return fails(FULL, file) ? -1 : real(file, from, count);
}

ssize_t read(int file, void *into, size_t size) {
  REAL(ssize_t, read, int, void *, size_t);
  return fails(READ, file) ? -1 : real(file, into, size);
}

ssize_t pread64(int file, void *into, size_t size, off64_t at) {
  REAL(ssize_t, pread64, int, void *, size_t, off64_t);
  return fails(READ, file) ? -1 : real(file, into, size, at);
}

ssize_t pread(int file, void *into, size_t size, off_t at) { return pread64(file, into, size, at); }

int fsync(int file) {
  REAL(int, fsync, int);
  return fails(SYNC, file) ? -1 : real(file);
}

int fdatasync(int file) {
  REAL(int, fdatasync, int);
  return fails(SYNC, file) ? -1 : real(file);
}
