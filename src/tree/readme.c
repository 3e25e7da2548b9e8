/* SPDX-License-Identifier: MIT */
/*
 * The text of README.
 */
#include "tree/readme.h"

const char *readme_text(void)
{
    return "Mail as files.\n"
           "\n"
           "  mkdir inboxes/me@DOMAIN           make an inbox\n"
           "  ls inboxes/me@DOMAIN              the mail it received, a file each; inbox.json is its "
           "settings\n"
           "  jq .subject inboxes/*/index.jsonl  all of it again, a line of JSON each, by date: quick to "
           "search\n"
<<<<<<< HEAD
           "  cat inboxes/*/*_figures_*/body.txt  the folder of an email: body.txt new.txt (without history) "
           "body.html\n"
           "                                    prompt.md thread.md message.eml attachments/ thread/\n"
=======
           "  ls 'search/WORDS from:NAME'       mail with these words, in all inboxes; also \"a phrase\", "
           "in:INBOX\n"
>>>>>>> 41c517f1029cb9893bc9286ce1a86e2877c60569
           "  echo sync > ctl                   look for new mail now (`sync ADDRESS`: in one inbox)\n"
           "\n"
           "Sending: write a message in drafts/ and move it to outbox/.\n"
           "\n"
           "  cat > drafts/hello <<END\n"
           "  To: bob@example.com\n"
           "  Subject: hello\n"
           "  Attach: report.pdf\n"
           "\n"
           "  How are you?\n"
           "  END\n"
           "  cp ~/report.pdf attachments/      files to attach; uploaded at once\n"
           "  mv drafts/hello outbox/           accepted and safe when mv returns; a bad message stays in "
           "drafts/\n"
           "  sync outbox                       wait until it went out\n"
           "\n"
           "What was sent goes to sent/, what was refused for good to failed/; NAME.receipt.json beside each "
           "says\n"
           "what happened. `mv failed/NAME outbox/` tries again. `rm outbox/NAME` cancels what still waits.\n"
           "Writing straight into outbox/ sends at the last close of the file. What cannot be seen then: "
           "that an\n"
           "earlier stage of a pipeline died (gen | cat > outbox/x), or that a program gave up and closed "
           "by\n"
           "itself. Use mv there. JSON send requests work like messages with headers do.\n"
           "Never sent: empty files, and names that start with `.` or end in ~ .tmp .part .swp, or are "
           "4913.\n"
           "\n"
           "  tail -f events.jsonl              what happened, a line of JSON each\n"
           "  head -n1 events                   wait for the next thing to happen (not listed by ls)\n"
           "  inotifywait -m inboxes/ADDRESS    new mail, as it arrives; sent/ and failed/ too\n"
           "  echo retry NAME > ctl             try a waiting or failed one now (`retry all`: all that "
           "wait)\n"
           "  cat status.json                   connection, queue, quota, counters\n";
}
