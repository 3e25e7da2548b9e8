/* SPDX-License-Identifier: MIT */
/*
 * The life of the service: first start, files and modes, keys, locks, restarts, kills.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "support/test.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "service/keys.h"
#include "unit/service/service_fixture.h"

#define ANN "ann@inbox.localhost"

static int set_up_dir(void **state)
{
    struct fixture *fixture = malloc(sizeof(*fixture));
    fixture_make_dir(fixture);
    *state = fixture;
    return 0;
}

static void assert_mode(const struct fixture *fixture, const char *name, mode_t mode)
{
    char path[400];
    struct stat status;
    snprintf(path, sizeof(path), "%s/%s", fixture->data_dir, name);
    assert_int_equal(0, stat(path, &status));
    assert_int_equal(mode, status.st_mode & 07777);
}

TEST_WITH(only_the_owner_can_read_the_data, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    mode_t before = umask(0);
    fixture_start(fixture);
    assert_mode(fixture, ".", 0700);
    assert_mode(fixture, "api-key", 0600);
    assert_mode(fixture, "inbox.sqlite3", 0600);
    assert_mode(fixture, "inbox.sqlite3-wal", 0600);
    assert_mode(fixture, "pool", 0700);
    assert_int_equal(64, strlen(fixture->key));
    umask(before);
}

static int try_start(const struct fixture *fixture, const char *listen_text)
{
    const struct service_door doors[] = {{SERVICE_HTTP, listen_text}, {0}};
    struct service_config config = fixture_config(fixture);
    config.doors = doors;
    struct service *service = NULL;
    char *reason = NULL;
    int error = service_start(&config, &service, &reason);
    if (error != 0)
        assert_non_null(reason);
    free(reason);
    service_stop(service);
    return error;
}

TEST_WITH(a_second_service_on_the_same_data_is_refused, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    fixture_start(fixture);
    assert_int_equal(-EBUSY, try_start(fixture, "127.0.0.1:0"));
    fixture_stop(fixture);
    assert_int_equal(0, try_start(fixture, "127.0.0.1:0"));
}

TEST_WITH(a_malformed_listen_address_is_refused, set_up_dir, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    static const char *const texts[] = {"",
                                        "127.0.0.1",
                                        ":80",
                                        "nowhere.example:80",
                                        "127.0.0.1:http",
                                        "127.0.0.1:65536",
                                        "127.0.0.1:-1",
                                        "127.0.0.1: 80",
                                        "unix:"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(-EINVAL, try_start(fixture, texts[i]));
}

TEST_WITH(a_bad_domain_is_refused, set_up_dir, fixture_tear_down)
{
    const struct fixture *fixture = *state;
    static const char *const domains[] = {"", "two words", "x@y.example", "x\n", "-.example"};
    for (size_t i = 0; i < sizeof(domains) / sizeof(domains[0]); i++) {
        struct service_config config = fixture_config(fixture);
        config.domain = domains[i];
        struct service *service = NULL;
        char *reason = NULL;
        if (service_start(&config, &service, &reason) != -EINVAL)
            fail_msg("taken: %s", domains[i]);
        assert_non_null(reason);
        free(reason);
    }
    assert_int_equal(-1, access(fixture->data_dir, F_OK));
}

TEST_WITH(only_the_owner_can_use_a_unix_socket, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    char address[400];
    snprintf(address, sizeof(address), "unix:%s/socket", fixture->dir.path);
    const struct service_door doors[] = {{SERVICE_HTTP, address}, {0}};
    struct service_config config = fixture_config(fixture);
    config.doors = doors;
    fixture_start_with(fixture, &config);
    assert_string_equal(address, service_address(fixture->service, 0));
    struct stat status;
    assert_int_equal(0, stat(address + 5, &status));
    assert_int_equal(0600, status.st_mode & 07777);
    assert_int_equal(0, count_of(fixture, "/api/v1/inbox"));
    fixture_stop(fixture);
    assert_int_equal(-1, stat(address + 5, &status));
}

/* The service takes no socket of any kind from another program. */
TEST_WITH(a_socket_of_another_program_is_not_replaced, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM};
    for (size_t i = 0; i < 2; i++) {
        char address[400];
        snprintf(address, sizeof(address), "unix:%s/socket%zu", fixture->dir.path, i);
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        snprintf(name.sun_path, sizeof(name.sun_path), "%.100s", address + 5);
        int fd = socket(AF_UNIX, kinds[i] | SOCK_CLOEXEC, 0);
        assert_int_equal(0, bind(fd, (struct sockaddr *)&name, sizeof(name)));
        if (kinds[i] == SOCK_STREAM)
            assert_int_equal(0, listen(fd, 5));
        assert_int_equal(-EADDRINUSE, try_start(fixture, address));
        assert_int_equal(0, access(address + 5, F_OK));
        close(fd);
    }
}

TEST_WITH(a_file_is_not_replaced_by_a_socket, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    char address[400];
    snprintf(address, sizeof(address), "unix:%s/notes", fixture->dir.path);
    int fd = open(address + 5, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(-EADDRINUSE, try_start(fixture, address));
    assert_int_equal(0, access(address + 5, F_OK));
}

/* After a crash the file may be incomplete, but the database then has no key. */
TEST_WITH(an_incomplete_first_key_is_replaced, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    static const char *const torn[] = {"", "0123abcd", "not a key\n"};
    for (size_t i = 0; i < 3; i++) {
        int dir_fd = file_open_dir(AT_FDCWD, fixture->data_dir);
        assert_int_equal(0, file_replace_at(dir_fd, "api-key", torn[i], strlen(torn[i]), 0600));
        close(dir_fd);
        fixture_start(fixture);
        assert_int_equal(0, count_of(fixture, "/api/v1/inbox"));
        fixture_remove(fixture);
        fixture_make_dir(fixture);
    }
}

TEST_WITH(a_first_key_that_ends_with_crlf_is_accepted, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    static const char key[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    int dir_fd = file_open_dir(AT_FDCWD, fixture->data_dir);
    char line[sizeof(key) + 2];
    snprintf(line, sizeof(line), "%s\r\n", key);
    assert_int_equal(0, file_replace_at(dir_fd, "api-key", line, strlen(line), 0600));
    close(dir_fd);
    fixture_start(fixture);
    assert_string_equal(key, fixture->key);
    assert_int_equal(0, count_of(fixture, "/api/v1/inbox"));
    fixture_stop(fixture);
}

/* Runs the command and stores its output in `ret_text`. */
static void run_key_command(int (*command)(struct database *, FILE *), struct database *database,
                            char *ret_text, size_t size)
{
    FILE *out = tmpfile();
    assert_non_null(out);
    assert_int_equal(0, command(database, out));
    rewind(out);
    ret_text[fread(ret_text, 1, size - 1, out)] = '\0';
    fclose(out);
}

TEST_WITH(keys_can_be_added_and_revoked_while_a_service_runs, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    struct database *database = NULL;
    assert_int_equal(-ENOENT, tables_open_existing(fixture->data_dir, &database));
    fixture_start(fixture);
    assert_int_equal(0, tables_open_existing(fixture->data_dir, &database));
    char key[128];
    run_key_command(keys_add, database, key, sizeof(key));
    key[strcspn(key, "\n")] = '\0';
    struct http_client client = {service_address(fixture->service, 0), key};
    struct http_answer answer;
    http_client_request(&client, "GET", "/api/v1/inbox", "", NULL, 0, &answer);
    assert_int_equal(200, answer.status);
    http_answer_release(&answer);

    char list[1024];
    run_key_command(keys_list, database, list, sizeof(list));
    assert_null(strstr(list, key));
    char *line = strchr(list, '\n') + 1;
    assert_int_equal(0, strncmp(line + 38, key, 8));
    line[36] = '\0';
    assert_int_equal(0, keys_revoke(database, line));
    assert_int_equal(-ENOKEY, keys_revoke(database, line));
    database_free(database);
    http_client_request(&client, "GET", "/api/v1/inbox", "", NULL, 0, &answer);
    assert_int_equal(401, answer.status);
    http_answer_release(&answer);
    assert_int_equal(0, count_of(fixture, "/api/v1/inbox"));
}

TEST_WITH(data_and_keys_survive_a_restart, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    fixture_start(fixture);
    char *before = strdup(fixture->key);
    free(create_inbox(fixture, ANN, NULL));
    char *file = upload(fixture, "a", "text/plain", "x", 1, 200);
    json_t *request = message_to(ANN, ANN, "kept");
    json_object_set_new(request, "idempotency_key", json_string("key"));
    json_object_set_new(request, "attachment_ids", json_pack("[s]", file));
    char *sent = send_message(fixture, json_incref(request));
    fixture_stop(fixture);
    fixture_start(fixture);
    assert_string_equal(before, fixture->key);
    char *again = send_message(fixture, json_incref(request));
    assert_string_equal(sent, again);
    json_object_set_new(request, "idempotency_key", json_string("other"));
    free(send_message(fixture, request));
    assert_int_equal(2, count_of(fixture, "/api/v1/email?search_term=kept"));
    free(again);
    free(sent);
    free(file);
    free(before);
}

static bool is_database_mapped(void)
{
    char line[1024];
    bool is_found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps) != NULL)
        is_found |= strstr(line, "/inbox.sqlite3") != NULL;
    fclose(maps);
    return is_found;
}

/* If a mapped file is truncated, the kernel kills the process: inboxfs, if the service is embedded. */
TEST_WITH(a_service_alone_on_its_data_maps_no_file, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    for (size_t i = 0; i < 4; i++) {
        bool is_alone = i % 2 == 0;
        struct service_config config = fixture_config(fixture);
        config.is_alone = is_alone;
        fixture_start_with(fixture, &config);
        if (i == 0)
            free(create_inbox(fixture, ANN, NULL));
        free(send_message(fixture, message_to(ANN, ANN, "alone")));
        assert_int_equal(i + 1, count_of(fixture, "/api/v1/email/outbound"));
        assert_int_equal(!is_alone, is_database_mapped());
        fixture_stop(fixture);
    }
}

TEST_WITH(data_of_a_newer_version_is_refused, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    fixture_start(fixture);
    fixture_stop(fixture);
    run_sql(fixture, "PRAGMA user_version = 999");
    assert_int_equal(-EPROTO, try_start(fixture, "127.0.0.1:0"));
}

static pid_t start_child(const struct fixture *fixture, char *ret_address, size_t size)
{
    int ends[2];
    assert_int_equal(0, pipe(ends));
    pid_t child = fork();
    if (child == 0) {
        const struct service_config config = fixture_config(fixture);
        struct service *service = NULL;
        char *reason = NULL;
        if (service_start(&config, &service, &reason) != 0)
            _exit(1);
        const char *address = service_address(service, 0);
        if (file_write_all(ends[1], address, strlen(address)) != 0)
            _exit(1);
        close(ends[1]);
        pause();
        _exit(0);
    }
    close(ends[1]);
    size_t len = 0;
    ssize_t got;
    while ((got = read(ends[0], ret_address + len, size - len - 1)) > 0)
        len += (size_t)got;
    ret_address[len] = '\0';
    close(ends[0]);
    assert_true(len > 0);
    return child;
}

TEST_WITH(a_killed_service_keeps_every_answered_change, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    char address[64];
    for (unsigned int round = 1; round <= 3; round++) {
        pid_t child = start_child(fixture, address, sizeof(address));
        free(fixture->key);
        assert_int_equal(0, service_read_api_key(fixture->data_dir, &fixture->key));
        fixture->client = (struct http_client){address, fixture->key};
        if (round == 1)
            free(create_inbox(fixture, ANN, NULL));
        for (int i = 0; i < 5; i++)
            free(send_message(fixture, message_to(ANN, ANN, "Survivor")));
        kill(child, SIGKILL);
        assert_int_equal(child, waitpid(child, NULL, 0));
    }
    fixture_start(fixture);
    assert_int_equal(15, count_of(fixture, "/api/v1/email?search_term=survivor"));
    assert_int_equal(15, count_of(fixture, "/api/v1/email/outbound"));
}

static void *keep_a_cpu_busy(void *argument)
{
    const atomic_bool *is_over = argument;
    while (!*is_over)
        ;
    return NULL;
}

/* The service ends before the threads that answer the unparsable requests. */
TEST_WITH(unparsable_requests_do_not_crash_a_service_that_ends, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    static const char request[] = "GET / HTTP/9.9\r\n\r\n";
    pthread_t busy[12];
    atomic_bool is_over = false;
    for (size_t i = 0; i < ARRAY_LEN(busy); i++)
        assert_int_equal(0, pthread_create(&busy[i], NULL, keep_a_cpu_busy, &is_over));
    for (int round = 0; round < 50; round++) {
        int fds[20];
        fixture_start(fixture);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
            fds[i] = http_client_connect(&fixture->client);
            assert_true(write(fds[i], request, strlen(request)) > 0);
        }
        fixture_stop(fixture);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++)
            close(fds[i]);
    }
    is_over = true;
    for (size_t i = 0; i < ARRAY_LEN(busy); i++)
        pthread_join(busy[i], NULL);
}

static unsigned int count_descriptors(void)
{
    unsigned int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

/* Some 20 descriptors may belong to database connections that the service keeps for later requests. */
TEST_WITH(no_request_leaves_a_descriptor_open, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    fixture_start(fixture);
    free(create_inbox(fixture, ANN, NULL));
    unsigned int before = count_descriptors();
    char *bytes = calloc(1, 300000);
    for (int i = 0; i < 40; i++) {
        free(upload(fixture, "a.bin", "application/octet-stream", bytes, 300000, 200));
        free(send_message(fixture, message_to(ANN, ANN, "Hello")));
        json_decref(get(fixture, "/api/v1/email"));
        json_decref(get(fixture, "/api/v1/inbox"));
        json_decref(call(fixture, "GET", "/api/v1/nothing", NULL, 404));
    }
    free(bytes);
    unsigned int after = count_descriptors();
    for (int i = 0; i < 1000 && after > before + 20; i++, after = count_descriptors())
        usleep(10 * 1000);
    assert_in_range(after, 1, before + 20);
}

/* SQLite cannot shorten its write-ahead log while a read transaction is open. */
TEST_WITH(no_read_transaction_stays_open, set_up_dir, fixture_tear_down)
{
    struct fixture *fixture = *state;
    fixture_start(fixture);
    free(create_inbox(fixture, ANN, NULL));
    free(upload(fixture, "a.txt", "text/plain", "bytes", 5, 200));
    fixture_stop(fixture);
    fixture_start(fixture);
    free(send_message(fixture, message_to(ANN, ANN, "Written after the start")));
    assert_int_equal(2, count_of(fixture, "/api/v1/email"));
    assert_int_equal(1, count_of(fixture, "/api/v1/email/outbound"));

    sqlite3 *db = open_database(fixture); /* waits, because a read transaction may end after its answer */
    assert_int_equal(SQLITE_OK, sqlite3_exec(db, "SELECT * FROM settings", NULL, NULL, NULL));
    assert_int_equal(SQLITE_OK, sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL));
    sqlite3_close(db);
}
