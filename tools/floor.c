/* What a copy over TCP costs at the least with ordinary calls: the floor beside which `bench-copy` puts the programs.
 *
 *     floor receive PORT CONNECTIONS TO [safe]
 *     floor send ADDRESS PORT CONNECTIONS SOURCE [safe]
 *
 * Files come by as many connections as threads a side; small ones many in one send(2), large ones in blocks. Nothing is
 * hashed, compared, kept for a second try or told. Each file has its name from the beginning; with `safe` it has another
 * until it is whole, and gets its time, as a program does that is interrupted now and then. For measuring alone: who
 * connects is believed.
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

enum { BLOCK = 1 << 20, HEAD = 4096 + 64, TOGETHER = 64, MOST_THREADS = 64 };

/* Before the bytes of each part of a file: its path below the top follows. */
struct part {
	uint64_t offset, bytes, whole;
	int64_t seconds, nanoseconds;
	uint32_t mode, name;
};

struct file {
	char *path;
	struct stat stat;
};

static struct file *files;
static size_t known, room;
static atomic_size_t next_file;
static int top, safe;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void all(int socket, const char *data, size_t bytes)
{
	while (bytes > 0) {
		ssize_t sent = send(socket, data, bytes, MSG_NOSIGNAL);
		if (sent < 0)
			fail("send");
		data += sent;
		bytes -= sent;
	}
}

/* The files of a tree. */
static void list(char *source)
{
	char *tops[] = {source, NULL};
	size_t above = strlen(source) + 1;
	FTS *tree = fts_open(tops, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	if (!tree)
		fail(source);
	for (FTSENT *entry; (entry = fts_read(tree));) {
		if (entry->fts_info != FTS_F)
			continue;
		if (known == room)
			files = realloc(files, (room = room ? 2 * room : 1024) * sizeof *files);
		files[known++] = (struct file){strdup(entry->fts_path + above), *entry->fts_statp};
	}
	fts_close(tree);
}

/* One part into the buffer: how much of it is taken then. */
static size_t load(char *buffer, const struct file *from, int file, uint64_t offset, uint64_t bytes)
{
	struct part part = {.offset = offset, .bytes = bytes, .whole = from->stat.st_size, .mode = from->stat.st_mode & 07777,
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
	size_t taken = load(buffer, from, file, 0, from->stat.st_size);
	close(file);
	return taken;
}

/* Thread `number` of `step` sends every step-th block, so that all share a large file. */
static void send_blocks(int socket, char *buffer, const struct file *from, size_t number, size_t step)
{
	int file = open_source(from);
	uint64_t whole = from->stat.st_size;
	for (uint64_t offset = number * (uint64_t)BLOCK; offset < whole; offset += step * (uint64_t)BLOCK)
		all(socket, buffer, load(buffer, from, file, offset, whole - offset < BLOCK ? whole - offset : BLOCK));
	close(file);
}

struct seat {
	int socket;
	size_t number, step;
};

static void *sender(void *given)
{
	struct seat *seat = given;
	char *buffer = malloc(BLOCK + HEAD);
	for (size_t i = 0; i < known; i++)
		if (files[i].stat.st_size > BLOCK)
			send_blocks(seat->socket, buffer, &files[i], seat->number, seat->step);
	for (size_t at; (at = atomic_fetch_add(&next_file, TOGETHER)) < known;) {
		size_t taken = 0;
		for (size_t i = at; i < at + TOGETHER && i < known; i++) {
			if (files[i].stat.st_size > BLOCK)
				continue;
			if (taken + files[i].stat.st_size > BLOCK) {
				all(seat->socket, buffer, taken);
				taken = 0;
			}
			taken += load_small(buffer + taken, &files[i]);
		}
		all(seat->socket, buffer, taken);
	}
	shutdown(seat->socket, SHUT_WR);
	/* The other side ends when all is written. */
	if (read(seat->socket, buffer, 1) != 0)
		fail("the other side");
	return NULL;
}

/* What one receiving thread has open: the directory of the file before, and the large file before. */
struct open {
	char directory[PATH_MAX], large[PATH_MAX];
	int at, file;
	uint64_t counted;
};

static int directory_of(struct open *open, const char *path, const char *slash)
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
	char other[NAME_MAX + 16];
	snprintf(other, sizeof other, ".%.200s.part", name);
	int file = openat(at, safe ? other : name, O_WRONLY | O_CREAT | O_EXCL, part->mode);
	if (file < 0)
		fail(name);
	put(file, data, part);
	if (safe) {
		struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {part->seconds, part->nanoseconds}};
		if (futimens(file, times) < 0 || renameat(at, other, at, name) < 0)
			fail(name);
	}
	close(file);
}

static void write_part(struct open *open, const char *path, const char *data, const struct part *part)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	int at = directory_of(open, path, slash);
	if (part->bytes == part->whole) {
		write_small(at, name, data, part);
		return;
	}
	if (open->file < 0 || strcmp(open->large, path) != 0) {
		if (open->file >= 0)
			close(open->file);
		strcpy(open->large, path);
		open->file = openat(at, name, O_WRONLY | O_CREAT, part->mode);
		if (open->file < 0)
			fail(name);
	}
	put(open->file, data, part);
}

/* Handles the whole parts at the beginning of what came: how much that was. Sets how much is missing of the next. */
static size_t take(struct open *open, char *data, size_t bytes, size_t *missing)
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
			fail("what came");
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
	struct seat *seat = given;
	struct open open = {.at = -1, .file = -1};
	size_t size = 2 * (BLOCK + HEAD), held = 0, missing = 0;
	char *buffer = malloc(size);
	for (;;) {
		/* The rest of a block alone and at once, so that nothing is moved about. */
		int large = missing > BLOCK / 4;
		ssize_t came = recv(seat->socket, buffer + held, large ? missing : size - held, large ? MSG_WAITALL : 0);
		if (came < 0)
			fail("recv");
		if (came == 0)
			break;
		held += came;
		size_t taken = take(&open, buffer, held, &missing);
		if (taken > 0)
			memmove(buffer, buffer + taken, held - taken);
		held -= taken;
	}
	close(seat->socket);
	return NULL;
}

static void together(struct seat *seats, size_t threads, void *(*work)(void *))
{
	pthread_t running[MOST_THREADS];
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&running[i], NULL, work, &seats[i]))
			fail("pthread_create");
	for (size_t i = 0; i < threads; i++)
		pthread_join(running[i], NULL);
}

int main(int given, char **words)
{
	int sends = given >= 6 && strcmp(words[1], "send") == 0;
	if (!sends && !(given >= 5 && strcmp(words[1], "receive") == 0)) {
		fprintf(stderr, "floor receive PORT CONNECTIONS TO [safe]\nfloor send ADDRESS PORT CONNECTIONS SOURCE [safe]\n");
		return 2;
	}
	char **rest = words + 2 + sends;
	size_t threads = strtoul(rest[1], NULL, 10);
	struct seat seats[MOST_THREADS];
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(rest[0]))};
	if (threads < 1 || threads > MOST_THREADS || (sends && inet_pton(AF_INET, words[2], &address.sin_addr) != 1)) {
		fprintf(stderr, "floor: what address, or how many connections?\n");
		return 2;
	}
	top = open(rest[2], O_RDONLY | O_DIRECTORY);
	if (top < 0)
		fail(rest[2]);
	safe = rest[3] && strcmp(rest[3], "safe") == 0;
	umask(0);
	int one = 1, door = socket(AF_INET, SOCK_STREAM, 0);
	if (!sends) {
		setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		if (bind(door, (struct sockaddr *)&address, sizeof address) < 0 || listen(door, MOST_THREADS) < 0)
			fail("listen");
	}
	for (size_t i = 0; i < threads; i++) {
		int made = sends ? socket(AF_INET, SOCK_STREAM, 0) : accept(door, NULL, NULL);
		/* BBR without its queueing discipline paces by timers: of the other programs, numaio avoids it, too. */
		setsockopt(made, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
		if (made < 0 || (sends && connect(made, (struct sockaddr *)&address, sizeof address) < 0))
			fail("connect");
		seats[i] = (struct seat){made, i, threads};
	}
	if (sends)
		list(rest[2]);
	together(seats, threads, sends ? sender : receiver);
	return 0;
}
