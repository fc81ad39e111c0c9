/* The floor of a copy: its minimum cost over TCP with ordinary system calls, for `bench-copy`.
 *
 *     floor receive PORT CONNECTIONS TO [safe]
 *     floor send ADDRESS PORT CONNECTIONS SOURCE [safe]
 *
 * Each side has one thread per connection. One send(2) carries many small files or a block of a large one. The program
 * does not hash, compare, resume or report. It creates files under their final names; with `safe` it uses a temporary
 * name until the file is complete, and sets its time, as numaio does without --fsync. It does not authenticate peers: use it for measurements only.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, HEADER = 4096 + 64, FILES_PER_TURN = 64, MOST_THREADS = 64 };

/* Header of each part of a file; the path relative to the top follows, then the bytes. */
struct part {
	uint64_t offset, bytes, file_bytes;
	int64_t seconds, nanoseconds;
	uint32_t mode, name;
};

struct file {
	char *path;
	struct stat stat;
};

static struct file *files;
static size_t file_count, file_capacity;
static atomic_size_t next_file;
static int top, safe;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void send_all(int socket, const char *data, size_t bytes)
{
	while (bytes > 0) {
		ssize_t sent = send(socket, data, bytes, MSG_NOSIGNAL);
		if (sent < 0)
			fail("send");
		data += sent;
		bytes -= sent;
	}
}

/* Lists the files of a tree. */
static void list_files(char *source)
{
	char *tops[] = {source, NULL};
	size_t prefix = strlen(source) + 1;
	FTS *tree = fts_open(tops, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	if (!tree)
		fail(source);
	for (FTSENT *entry; (entry = fts_read(tree));) {
		if (entry->fts_info != FTS_F)
			continue;
		if (file_count == file_capacity)
			files = realloc(files, (file_capacity = file_capacity ? 2 * file_capacity : 1024) * sizeof *files);
		files[file_count++] = (struct file){strdup(entry->fts_path + prefix), *entry->fts_statp};
	}
	fts_close(tree);
}

/* Loads one part into the buffer; returns the bytes used. */
static size_t load(char *buffer, const struct file *from, int file, uint64_t offset, uint64_t bytes)
{
	struct part part = {.offset = offset, .bytes = bytes, .file_bytes = from->stat.st_size, .mode = from->stat.st_mode & 07777,
			    .seconds = from->stat.st_mtim.tv_sec, .nanoseconds = from->stat.st_mtim.tv_nsec,
			    .name = strlen(from->path)};
	memcpy(buffer, &part, sizeof part);
	memcpy(buffer + sizeof part, from->path, part.name);
	if (pread(file, buffer + sizeof part + part.name, bytes, offset) != (ssize_t)bytes)
		fail(from->path);
	return sizeof part + part.name + bytes;
}

static int open_source(const struct file *from)
{
	int file = openat(top, from->path, O_RDONLY | O_NOATIME);
	if (file < 0)
		fail(from->path);
	return file;
}

static size_t load_small(char *buffer, const struct file *from)
{
	int file = open_source(from);
	size_t used = load(buffer, from, file, 0, from->stat.st_size);
	close(file);
	return used;
}

/* Sends every step-th block of a large file from block `number`, so that all threads share it. */
static void send_blocks(int socket, char *buffer, const struct file *from, size_t number, size_t step)
{
	int file = open_source(from);
	uint64_t size = from->stat.st_size;
	for (uint64_t offset = number * (uint64_t)BLOCK; offset < size; offset += step * (uint64_t)BLOCK)
		send_all(socket, buffer, load(buffer, from, file, offset, size - offset < BLOCK ? size - offset : BLOCK));
	close(file);
}

struct worker {
	int socket;
	size_t number, step;
};

static void *sender(void *given)
{
	struct worker *worker = given;
	char *buffer = malloc(BLOCK + HEADER);
	for (size_t i = 0; i < file_count; i++)
		if (files[i].stat.st_size > BLOCK)
			send_blocks(worker->socket, buffer, &files[i], worker->number, worker->step);
	for (size_t at; (at = atomic_fetch_add(&next_file, FILES_PER_TURN)) < file_count;) {
		size_t taken = 0;
		for (size_t i = at; i < at + FILES_PER_TURN && i < file_count; i++) {
			if (files[i].stat.st_size > BLOCK)
				continue;
			if (taken + files[i].stat.st_size > BLOCK) {
				send_all(worker->socket, buffer, taken);
				taken = 0;
			}
			taken += load_small(buffer + taken, &files[i]);
		}
		send_all(worker->socket, buffer, taken);
	}
	shutdown(worker->socket, SHUT_WR);
	/* The peer closes the connection after it has written everything. */
	if (read(worker->socket, buffer, 1) != 0)
		fail("peer");
	return NULL;
}

/* A large file with a temporary name, which all receiving threads write to. */
struct unfinished {
	char temporary[PATH_MAX], path[PATH_MAX];
	struct timespec times[2];
	struct unfinished *next;
};

static struct unfinished *unfinished;
static pthread_mutex_t unfinished_lock = PTHREAD_MUTEX_INITIALIZER;

/* Remembers a large file, once. */
static void add_unfinished(const char *temporary, const char *path, const struct part *part)
{
	pthread_mutex_lock(&unfinished_lock);
	struct unfinished *known = unfinished;
	while (known && strcmp(known->path, path) != 0)
		known = known->next;
	if (!known) {
		known = calloc(1, sizeof *known);
		strcpy(known->temporary, temporary);
		strcpy(known->path, path);
		known->times[0].tv_nsec = UTIME_OMIT;
		known->times[1] = (struct timespec){part->seconds, part->nanoseconds};
		known->next = unfinished;
		unfinished = known;
	}
	pthread_mutex_unlock(&unfinished_lock);
}

/* Gives complete large files their times and names. */
static void finish_large(void)
{
	for (; unfinished; unfinished = unfinished->next)
		if (utimensat(top, unfinished->temporary, unfinished->times, 0) < 0 ||
		    renameat(top, unfinished->temporary, top, unfinished->path) < 0)
			fail(unfinished->path);
}

/* Directory of the previous file, and the previous large file, which a receiving thread keeps open. */
struct open_files {
	char directory[PATH_MAX], large[PATH_MAX];
	int at, file;
	uint64_t counted;
};

static int directory_of(struct open_files *open, const char *path, const char *slash)
{
	size_t length = slash ? (size_t)(slash - path) : 0;
	if (open->at >= 0 && strlen(open->directory) == length && memcmp(open->directory, path, length) == 0)
		return open->at;
	if (open->at >= 0)
		close(open->at);
	memcpy(open->directory, path, length);
	open->directory[length] = 0;
	for (char *end = open->directory; length > 0; *end++ = '/') {
		end = strchrnul(end, '/');
		int last = *end == 0;
		*end = 0;
		if (mkdirat(top, open->directory, 0755) < 0 && errno != EEXIST)
			fail(open->directory);
		if (last)
			break;
	}
	open->at = openat(top, length ? open->directory : ".", O_RDONLY | O_DIRECTORY);
	if (open->at < 0)
		fail(open->directory);
	return open->at;
}

static void put(int file, const char *data, const struct part *part)
{
	if (pwrite(file, data, part->bytes, part->offset) != (ssize_t)part->bytes)
		fail("write");
}

static void write_small(int at, const char *name, const char *data, const struct part *part)
{
	char temporary[NAME_MAX + 16];
	snprintf(temporary, sizeof temporary, ".%.200s.part", name);
	int file = openat(at, safe ? temporary : name, O_WRONLY | O_CREAT | O_EXCL, part->mode);
	if (file < 0)
		fail(name);
	put(file, data, part);
	if (safe) {
		struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {part->seconds, part->nanoseconds}};
		if (futimens(file, times) < 0 || renameat(at, temporary, at, name) < 0)
			fail(name);
	}
	close(file);
}

static void write_part(struct open_files *open, const char *path, const char *data, const struct part *part)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	int at = directory_of(open, path, slash);
	if (part->bytes == part->file_bytes) {
		write_small(at, name, data, part);
		return;
	}
	if (open->file < 0 || strcmp(open->large, path) != 0) {
		if (open->file >= 0)
			close(open->file);
		strcpy(open->large, path);
		char temporary[PATH_MAX];
		int above = slash ? (int)(slash - path) + 1 : 0;
		if (snprintf(temporary, sizeof temporary, "%.*s.%.200s.part", above, path, name) >= (int)sizeof temporary) {
			errno = ENAMETOOLONG;
			fail(path);
		}
		if (safe)
			add_unfinished(temporary, path, part);
		open->file = openat(top, safe ? temporary : path, O_WRONLY | O_CREAT, part->mode);
		if (open->file < 0)
			fail(name);
	}
	put(open->file, data, part);
}

/* Writes the complete parts in the buffer. Returns their bytes, and sets `missing` to those of the next part. */
static size_t write_parts(struct open_files *open, char *data, size_t bytes, size_t *missing)
{
	size_t taken = 0;
	struct part part;
	for (;;) {
		*missing = 0;
		if (bytes - taken < sizeof part)
			return taken;
		memcpy(&part, data + taken, sizeof part);
		if (part.name >= PATH_MAX || part.bytes > BLOCK) {
			errno = EPROTO;
			fail("invalid header");
		}
		if (bytes - taken < sizeof part + part.name + part.bytes) {
			*missing = sizeof part + part.name + part.bytes - (bytes - taken);
			return taken;
		}
		char path[PATH_MAX];
		memcpy(path, data + taken + sizeof part, part.name);
		path[part.name] = 0;
		write_part(open, path, data + taken + sizeof part + part.name, &part);
		taken += sizeof part + part.name + part.bytes;
	}
}

static void *receiver(void *given)
{
	struct worker *worker = given;
	struct open_files open = {.at = -1, .file = -1};
	size_t size = 2 * (BLOCK + HEADER), buffered = 0, missing = 0;
	char *buffer = malloc(size);
	for (;;) {
		/* Receives the rest of a block with one call, to avoid moving bytes in the buffer. */
		int large = missing > BLOCK / 4;
		ssize_t received = recv(worker->socket, buffer + buffered, large ? missing : size - buffered, large ? MSG_WAITALL : 0);
		if (received < 0)
			fail("recv");
		if (received == 0)
			break;
		buffered += received;
		size_t taken = write_parts(&open, buffer, buffered, &missing);
		if (taken > 0)
			memmove(buffer, buffer + taken, buffered - taken);
		buffered -= taken;
	}
	return NULL;
}

static void run_threads(struct worker *workers, size_t threads, void *(*work)(void *))
{
	pthread_t running[MOST_THREADS];
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&running[i], NULL, work, &workers[i]))
			fail("pthread_create");
	for (size_t i = 0; i < threads; i++)
		pthread_join(running[i], NULL);
}

int main(int argc, char **argv)
{
	int sends = argc >= 6 && strcmp(argv[1], "send") == 0;
	if (!sends && !(argc >= 5 && strcmp(argv[1], "receive") == 0)) {
		fprintf(stderr, "usage: floor receive PORT CONNECTIONS TO [safe]\n"
				"       floor send ADDRESS PORT CONNECTIONS SOURCE [safe]\n");
		return 2;
	}
	char **arguments = argv + 2 + sends;
	size_t threads = strtoul(arguments[1], NULL, 10);
	struct worker workers[MOST_THREADS];
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[0]))};
	if (threads < 1 || threads > MOST_THREADS || (sends && inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)) {
		fprintf(stderr, "floor: invalid address or number of connections\n");
		return 2;
	}
	top = open(arguments[2], O_RDONLY | O_DIRECTORY);
	if (top < 0)
		fail(arguments[2]);
	safe = arguments[3] && strcmp(arguments[3], "safe") == 0;
	umask(0);
	int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
	if (!sends) {
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, MOST_THREADS) < 0)
			fail("listen");
	}
	for (size_t i = 0; i < threads; i++) {
		int connection = sends ? socket(AF_INET, SOCK_STREAM, 0) : accept(listener, NULL, NULL);
		/* Without its queueing discipline BBR paces by timers. numaio avoids it, too. */
		setsockopt(connection, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
		if (connection < 0 || (sends && connect(connection, (struct sockaddr *)&address, sizeof address) < 0))
			fail("connect");
		workers[i] = (struct worker){connection, i, threads};
	}
	if (sends)
		list_files(arguments[2]);
	run_threads(workers, threads, sends ? sender : receiver);
	if (!sends) {
		finish_large();
		for (size_t i = 0; i < threads; i++)
			close(workers[i].socket);
	}
	return 0;
}
