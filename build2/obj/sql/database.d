build2/obj/sql/database.o: src/sql/database.c src/sql/database.h \
 src/base/cleanup.h src/base/wait.h src/base/clock.h src/sql/query.h \
 src/base/file.h src/base/log.h
src/sql/database.h:
src/base/cleanup.h:
src/base/wait.h:
src/base/clock.h:
src/sql/query.h:
src/base/file.h:
src/base/log.h:
