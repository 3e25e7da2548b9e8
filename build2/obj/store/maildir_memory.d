build2/obj/store/maildir_memory.o: src/store/maildir_memory.c \
 src/store/maildir_memory.h src/base/clock.h src/store/number_table.h \
 src/base/cleanup.h src/base/hash.h src/base/log.h src/sql/database.h \
 src/base/wait.h src/sql/query.h
src/store/maildir_memory.h:
src/base/clock.h:
src/store/number_table.h:
src/base/cleanup.h:
src/base/hash.h:
src/base/log.h:
src/sql/database.h:
src/base/wait.h:
src/sql/query.h:
