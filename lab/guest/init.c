/*
 * The guest's init: loads modules, runs one command and reports its status.
 *
 * /lab/order    module files, one per line, in load order
 * /lab/argv     the command, each argument terminated by a NUL byte
 * /lab/get      exists if the host requests /out
 *
 * Virtio serial ports: 1 the command's stdout, 2 its stderr, 3 reports
 * ("start", "exit STATUS"), 4 a tar archive of /out.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int report_fd = -1;

static void report(const char *what, int value)
{
    dprintf(report_fd, "%s %d\n", what, value);
}

static void die(const char *what)
{
    printf("lab init: %s: %s\n", what, strerror(errno));
    if (report_fd >= 0)
        report("fail", errno);
    reboot(RB_AUTOBOOT); /* qemu runs with -no-reboot */
    _exit(1);
}

static void mount_on(const char *type, const char *dir, const char *options)
{
    mkdir(dir, 0755);
    if (mount(type, dir, type, 0, options))
        die(dir);
}

static void load_modules(void)
{
    char line[4096];
    FILE *f = fopen("/lab/order", "r");
    if (!f)
        die("/lab/order");
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        int fd = open(line, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
            die(line);
        close(fd);
    }
    fclose(f);
}

/* Waits for a port, which appears after the driver has initialized the device. */
static int open_port(int number)
{
    char name[32];
    snprintf(name, sizeof name, "/dev/vport0p%d", number);
    for (int tries = 0; tries < 3000; tries++) {
        int fd = open(name, O_WRONLY | O_CLOEXEC);
        if (fd >= 0)
            return fd;
        usleep(10000);
    }
    die(name);
    return -1;
}

static char **read_argv(void)
{
    static char text[256 << 10];
    static char *argv[sizeof text / 2];
    int fd = open("/lab/argv", O_RDONLY | O_CLOEXEC), n = 0;
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (size <= 0 || text[size - 1])
        die("/lab/argv");
    close(fd);
    for (char *p = text; p < text + size; p += strlen(p) + 1)
        argv[n++] = p;
    return argv;
}

/* Runs argv with the given stdout and stderr; returns a status as a shell does. */
static int run(char **argv, int out, int err)
{
    static char *env[] = { "HOME=/root", "PATH=/bin", "TERM=dumb",
                           "XDG_STATE_HOME=/out/state", NULL };
    int status;
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (!pid) {
        setsid();
        dup2(open("/dev/null", O_RDONLY), 0);
        dup2(out, 1);
        dup2(err, 2);
        if (chdir("/root"))
            _exit(126);
        execvpe(argv[0], argv, env);
        dprintf(2, "lab: %s: %s\n", argv[0], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    for (;;) { /* init also reaps orphans */
        pid_t ended = wait(&status);
        if (ended == pid)
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                       : WEXITSTATUS(status);
        if (ended < 0 && errno != EINTR)
            die("wait");
    }
}

int main(void)
{
    mount_on("proc", "/proc", "");
    mount_on("sysfs", "/sys", "");
    mount_on("devtmpfs", "/dev", "");
    mount_on("tmpfs", "/tmp", "");
    mount_on("tmpfs", "/out", "");
    mkdir("/out/state", 0755);
    setenv("PATH", "/bin", 1);
    load_modules();

    int out = open_port(1), err = open_port(2);
    report_fd = open_port(3);
    char **argv = read_argv();
    report("start", 0);
    int status = run(argv, out, err);
    if (!access("/lab/get", F_OK)) {
        char *tar[] = { "tar", "-C", "/out", "-cf", "-", ".", NULL };
        if (run(tar, open_port(4), 1))
            die("tar");
    }
    report("exit", status);
    sync();
    reboot(RB_POWER_OFF);
    return 0;
}
