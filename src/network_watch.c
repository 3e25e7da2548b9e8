/* SPDX-License-Identifier: MIT */
#include "network_watch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/process.h"

/* Discards one report or error (ENOBUFS if reports were lost). Does not read more reports, so that no flood
 * of reports delays a signal. */
static void discard_report(int fd)
{
    char report[8192];
    while (read(fd, report, sizeof(report)) < 0 && errno == EINTR)
        ;
}

int network_watch_until_signal(const sigset_t *ending, struct store *store, struct progress *progress)
{
    const struct sockaddr_nl address = {
        .nl_family = AF_NETLINK,
        .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR | RTMGRP_IPV6_ROUTE,
    };
    /* The timer would expire in 2242; it serves only to be cancelled by a jump of the clock. */
    const struct itimerspec never = {.it_value = {.tv_sec = (time_t)1 << 33}};
    _cleanup_close_ int signals = signalfd(-1, ending, SFD_CLOEXEC | SFD_NONBLOCK);
    _cleanup_close_ int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    _cleanup_close_ int timer = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    struct pollfd fds[] = {{signals, POLLIN, 0}, {netlink, POLLIN, 0}, {timer, POLLIN, 0}};
    struct signalfd_siginfo ended;
    bool is_bound = bind(netlink, (const struct sockaddr *)&address, sizeof(address)) == 0;
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) != 0 || !is_bound)
        log_debug("a change of the network, or a suspend, is not noticed at once");
    if (signals < 0)
        return process_wait_for_ending_signal(ending);
    while (read(signals, &ended, sizeof(ended)) != sizeof(ended)) {
        if (progress != NULL)
            progress_refresh(progress);
        if (poll(fds, ARRAY_LEN(fds), progress != NULL ? PROGRESS_REFRESH_MS : -1) <= 0 ||
            (fds[1].revents == 0 && fds[2].revents == 0))
            continue;
        discard_report(netlink);
        discard_report(timer);
        store_network_changed(store);
    }
    return (int)ended.ssi_signo;
}
