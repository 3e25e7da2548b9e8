build2/obj/base/thread.o: src/base/thread.c src/base/thread.h \
 src/base/clock.h src/base/wait.h
src/base/thread.h:
src/base/clock.h:
src/base/wait.h:
