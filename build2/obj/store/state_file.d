build2/obj/store/state_file.o: src/store/state_file.c \
 src/store/state_file.h src/sql/query.h src/base/cleanup.h \
 src/base/crash_point.h src/base/file.h src/base/log.h src/base/thread.h
src/store/state_file.h:
src/sql/query.h:
src/base/cleanup.h:
src/base/crash_point.h:
src/base/file.h:
src/base/log.h:
src/base/thread.h:
