build2/obj/base/crash_point.o: src/base/crash_point.c \
 src/base/crash_point.h
src/base/crash_point.h:
