build2/obj/store/cache.o: src/store/cache.c src/store/cache.h \
 src/sql/database.h src/base/cleanup.h src/base/wait.h src/base/clock.h \
 src/sql/query.h src/base/hash.h
src/store/cache.h:
src/sql/database.h:
src/base/cleanup.h:
src/base/wait.h:
src/base/clock.h:
src/sql/query.h:
src/base/hash.h:
