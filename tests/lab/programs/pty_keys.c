// Runs a command in a new terminal of 100 columns and 30 lines, and types keys: each argument
// before `--` is a number of seconds to wait, or text to type.
//
// Prints what the command writes.

#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int terminal;

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// Copies output for some seconds; returns 0 once the command has closed the terminal.
static int copy_output(double seconds)
{
	for (double end = now() + seconds; now() < end;) {
		struct pollfd ready = { .fd = terminal, .events = POLLIN };
		char text[4096];
		if (poll(&ready, 1, 100) <= 0)
			continue;
		ssize_t bytes = read(terminal, text, sizeof text);
		if (bytes <= 0)
			return 0;
		fwrite(text, 1, (size_t)bytes, stdout);
	}
	return 1;
}

int main(int argc, char **argv)
{
	int command = 1;
	while (command < argc && strcmp(argv[command], "--") != 0)
		command++;
	terminal = posix_openpt(O_RDWR | O_NOCTTY);
	if (command + 1 >= argc || terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) {
		fprintf(stderr, "usage: pty_keys KEYS... -- COMMAND [ARGS...]\n");
		return 1;
	}
	pid_t child = fork();
	if (child == 0) {
		setsid();
		int side = open(ptsname(terminal), O_RDWR);
		struct winsize size = { .ws_row = 30, .ws_col = 100 };
		ioctl(side, TIOCSCTTY, 0);
		ioctl(side, TIOCSWINSZ, &size);
		for (int file = 0; file < 3; file++)
			dup2(side, file);
		close(side);
		close(terminal);
		setenv("TERM", "xterm", 1);
		setenv("LC_ALL", "C.UTF-8", 1);
		execvp(argv[command + 1], argv + command + 1);
		_exit(127);
	}
	for (int key = 1; key < command; key++) {
		if (isdigit((unsigned char)argv[key][0])) {
			if (!copy_output(atof(argv[key])))
				break;
		} else if (write(terminal, argv[key], strlen(argv[key])) < 0) {
			break;
		}
	}
	copy_output(10);
	kill(child, 9);
	int status = 0;
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
