/* SPDX-License-Identifier: MIT */
/*
 * The table of what is always there, and README.
 */
#include "tree/root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tree/handle_type.h"
#include "tree/search.h"

static const struct fixed_entry entries[FIXED_NODES] = {
    [FIXED_ROOT] = {.name = "", .mode = S_IFDIR | 0700, .is_lasting = true},
    [FIXED_README] = {.name = "README", .mode = S_IFREG | 0444, .is_lasting = true},
    [FIXED_STATUS] = {.name = "status.json", .mode = S_IFREG | 0444},
    [FIXED_EVENT_LOG] = {.name = "events.jsonl", .mode = S_IFREG | 0444},
    [FIXED_INBOXES] = {.name = "inboxes", .mode = S_IFDIR | 0700, .is_lasting = true},
    [FIXED_SEARCH] = {.name = "search", .mode = S_IFDIR | 0700},
    [FIXED_DRAFTS] = {.name = "drafts", .mode = S_IFDIR | 0700},
    [FIXED_OUTBOX] = {.name = "outbox", .mode = S_IFDIR | 0700},
    [FIXED_SENT] = {.name = "sent", .mode = S_IFDIR | 0700},
    [FIXED_FAILED] = {.name = "failed", .mode = S_IFDIR | 0700},
    [FIXED_ATTACHMENTS] = {.name = "attachments", .mode = S_IFDIR | 0700},
    [FIXED_MAILDIR] = {.name = "maildir", .mode = S_IFDIR | 0700, .is_lasting = true},
    [FIXED_EVENTS] = {.name = "events", .mode = S_IFREG | 0400, .is_hidden = true},
    [FIXED_CTL] = {.name = "ctl", .mode = S_IFREG | 0200, .is_hidden = true},
};

static const enum fixed_node folder_nodes[OUTBOX_FOLDERS] = {
    [OUTBOX_FOLDER_OUTBOX] = FIXED_OUTBOX,
    [OUTBOX_FOLDER_SENT] = FIXED_SENT,
    [OUTBOX_FOLDER_FAILED] = FIXED_FAILED,
    [OUTBOX_FOLDER_ATTACHMENTS] = FIXED_ATTACHMENTS,
};

const struct fixed_entry *fixed_get(enum fixed_node node)
{
    return &entries[node];
}

enum fixed_node fixed_find(const char *name)
{
    for (int i = FIXED_ROOT + 1; i < FIXED_NODES; i++)
        if (strcmp(entries[i].name, name) == 0)
            return (enum fixed_node)i;
    return FIXED_ROOT;
}

bool fixed_is_outbox_folder(enum fixed_node node, enum outbox_folder *ret)
{
    for (int i = 0; i < OUTBOX_FOLDERS; i++)
        if (folder_nodes[i] == node) {
            if (ret != NULL)
                *ret = (enum outbox_folder)i;
            return true;
        }
    return false;
}

enum fixed_node fixed_of_outbox_folder(enum outbox_folder folder)
{
    return folder_nodes[folder];
}

/* ---------------------------------------------------------------- README */

const char *readme_text(void)
{
    return "Mail as files.\n"
           "\n"
           "  mkdir inboxes/me@DOMAIN           make an inbox\n"
           "  ls inboxes/me@DOMAIN              the mail it received, a file each; inbox.json is its "
           "settings\n"
           "  jq .subject inboxes/*/index.jsonl  all of it again, a line of JSON each, by date: quick to "
           "search\n"
           "  cat inboxes/*/*_figures_*/body.txt  the folder of an email: body.txt new.txt (without history) "
           "body.html\n"
           "                                    prompt.md thread.md message.eml attachments/ thread/\n"
           "  ls inboxes/ADDRESS/.invalid       what rules or checks held back; mv it out to mark it valid\n"
           "  ls 'search/WORDS from:NAME'       mail with these words, in all inboxes; also \"a phrase\", "
           "in:INBOX\n"
           "  neomutt -f maildir/ADDRESS        every inbox as a Maildir, for mail programs\n"
           "  echo sync > ctl                   look for new mail now (`sync ADDRESS`: in one inbox)\n"
           "\n"
           "Sending: write a message in drafts/ and move it to outbox/.\n"
           "\n"
           "  cat > drafts/hello <<END\n"
           "  From: me@DOMAIN\n"
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
           "  echo Thanks. > inboxes/*/*_figures_*/reply    also reply-all, forward (with a To line); mv "
           "works, "
           "too\n"
           "\n"
           "What was sent goes to sent/, what was refused for good to failed/; NAME.receipt.json beside each "
           "says\n"
           "what happened. `mv failed/NAME outbox/` tries again. `rm outbox/NAME` cancels what still waits.\n"
           "Writing straight into outbox/ sends at the last close of the file. What cannot be seen then: "
           "that an\n"
           "earlier stage of a pipeline died (gen | cat > outbox/x), or that a program gave up and closed "
           "by\n"
           "itself. Use mv there. JSON send requests work like messages with headers do.\n"
           "Never sent: empty files, and names of temporary files and backups: .x x~ #x# x.tmp x.part "
           "x.swp x.bak\n"
           "x.old x.orig x.rej x.sav 4913.\n"
           "\n"
           "  tail -f events.jsonl              what happened, a line of JSON each\n"
           "  head -n1 events                   wait for the next thing to happen (not listed by ls)\n"
           "  inotifywait -m inboxes/ADDRESS    new mail, as it arrives; sent/ and failed/ too\n"
           "  echo retry NAME > ctl             try a waiting or failed one now (`retry all`: all that "
           "wait)\n"
           "  cat status.json                   connection, queue, quota, counters\n";
}

static int read_readme(struct tree_handle *handle, size_t len, off_t offset, struct tree_data *ret)
{
    (void)handle;
    return handle_read_text(readme_text(), strlen(readme_text()), len, offset, ret);
}

int readme_open(struct tree *tree, int flags, struct tree_handle **ret_handle)
{
    static const struct handle_ops ops = {
        .caching = TREE_CACHE_LASTING, .read = read_readme, .release = tree_handle_free};
    if (!handle_is_for_reading(flags))
        return -EACCES;
    *ret_handle = handle_new(tree, &ops, sizeof(**ret_handle), flags);
    return *ret_handle == NULL ? -ENOMEM : 0;
}
