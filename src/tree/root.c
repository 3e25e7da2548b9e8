/* SPDX-License-Identifier: MIT */
/*
 * The root of the mount: its entries, and the file README.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "tree/node.h"

/* In the order of the listing. */
static const struct root_entry {
    const char *name;
    enum node_kind kind;
    uint64_t number;
    bool is_hidden;                            /* can be looked up, but is not listed */
    bool (*is_there)(const struct tree *tree); /* NULL: always */
} entries[] = {
    {"README", NODE_README, 0, false, NULL},
    {"status.json", NODE_STATUS, 0, false, NULL},
    {"events.jsonl", NODE_EVENT_LOG, 0, false, NULL},
    {"inboxes", NODE_INBOXES, 0, false, NULL},
    {"search", NODE_SEARCH, 0, false, NULL},
    {"drafts", NODE_DRAFT, 0, false, NULL},
    {"outbox", NODE_OUTBOX_FOLDER, OUTBOX_FOLDER_OUTBOX, false, NULL},
    {"sent", NODE_SETTLED_FOLDER, OUTBOX_FOLDER_SENT, false, NULL},
    {"failed", NODE_SETTLED_FOLDER, OUTBOX_FOLDER_FAILED, false, NULL},
    {"attachments", NODE_OUTBOX_FOLDER, OUTBOX_FOLDER_ATTACHMENTS, false, NULL},
    {"maildir", NODE_MAILDIRS, 0, false, maildir_is_shown},
    {"events", NODE_EVENT_STREAM, 0, true, NULL},
    {"ctl", NODE_CONTROL, 0, true, NULL},
};

static int get_entry(struct tree *tree, const struct root_entry *entry, struct tree_entry *ret)
{
    if (entry->is_there != NULL && !entry->is_there(tree))
        return -ENOENT;
    return node_get(tree, &no_caller, node_ino(entry->kind, entry->number), ret);
}

static int lookup_in_root(struct tree *tree, const struct tree_caller *caller, uint64_t folder,
                          const char *name, struct tree_entry *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(entries); i++)
        if (strcmp(entries[i].name, name) == 0)
            return get_entry(tree, &entries[i], ret);
    return -ENOENT;
}

static int read_root(struct tree_dir *dir, uint64_t position)
{
    struct tree_entry entry;
    for (; position < ARRAY_LEN(entries); position++) {
        const struct root_entry *item = &entries[position];
        if (!item->is_hidden && get_entry(dir->base.tree, item, &entry) == 0 &&
            !dir_put(dir, item->name, &entry, position + 1))
            break;
    }
    return 0;
}

const struct node_ops root_ops = {
    .mode = S_IFDIR | 0700,
    .lasting = LASTING,
    .lookup = lookup_in_root,
    .read_dir = read_root,
    .is_listing_lasting = true,
};

/* ---------------------------------------------------------------- README */

static const char readme[] =
    "Mail as files.\n"
    "\n"
    "  mkdir inboxes/me@DOMAIN           make an inbox\n"
    "  ls inboxes/me@DOMAIN              the mail it received, a file *_*.json each; inbox.json is its "
    "settings\n"
    "  jq .subject inboxes/*/index.jsonl  all of it again, a line of JSON each, by date: quick to search\n"
    "  cat inboxes/*/*_figures_*/body.txt  the folder of an email: body.txt new.txt (without history) "
    "body.html\n"
    "                                    prompt.md thread.md message.eml attachments/ thread/\n"
    "  ls inboxes/ADDRESS/.invalid       what rules or checks held back; mv it out to mark it valid\n"
    "  ls 'search/WORDS from:NAME'       mail with these words, in all inboxes; also \"a phrase\", in:INBOX\n"
    "                                    subject: to: after:7d before:2026-11 has:attachment -WORD, A OR B\n"
    "                                    fetches nothing: of bodies, finds what was read here, or the "
    "service finds\n"
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
    "  mv drafts/hello outbox/           accepted and safe when mv returns; a bad message stays in drafts/\n"
    "  jq .refused status.json           why the last thing was refused, in words; `inboxfs status`, too\n"
    "  sync outbox                       wait until it went out\n"
    "  echo Thanks. > inboxes/*/*_figures_*/reply    also reply-all, forward (with a To line); mv works, "
    "too\n"
    "\n"
    "What was sent goes to sent/, what was refused for good to failed/; NAME.receipt.json beside each says\n"
    "what happened. `mv failed/NAME outbox/` tries again. `rm outbox/NAME` cancels what still waits.\n"
    "Writing straight into outbox/ sends when nobody has touched the file for two seconds. What cannot be "
    "seen\n"
    "then: that an earlier stage of a pipeline died (gen | cat > outbox/x), or that a program gave up and "
    "closed by\n"
    "itself. Use mv there. JSON send requests work like messages with headers do.\n"
    "Never sent: empty files, and names of temporary files and backups: .x x~ #x# x.tmp x.part x.swp x.bak\n"
    "x.old x.orig x.rej x.sav x.save x.save.1 4913.\n"
    "\n"
    "  tail -f events.jsonl              what happened, a line of JSON each\n"
    "  head -n1 events                   wait for the next thing to happen (not listed by ls)\n"
    "  inotifywait -m inboxes/ADDRESS    new mail, as it arrives; sent/ and failed/ too\n"
    "  echo retry NAME > ctl             try a waiting or failed one now (`retry all`: all that wait)\n"
    "  cat status.json                   connection, queue, quota, counters\n";

static int get_readme(struct tree *tree, const struct tree_caller *caller, uint64_t ino,
                      struct tree_entry *ret)
{
    entry_fill_ms(tree, ino, S_IFREG | 0444, strlen(readme), 0, LASTING, ret);
    return 0;
}

static int open_readme(struct tree *tree, const struct tree_caller *caller, uint64_t ino, int flags,
                       struct tree_handle **ret_handle)
{
    int error = handle_open_text(tree, flags, g_strdup(readme), strlen(readme), ret_handle);
    if (error == 0)
        (*ret_handle)->caching = TREE_CACHE_LASTING;
    return error;
}

const struct node_ops readme_ops = {.get = get_readme, .open = open_readme};
