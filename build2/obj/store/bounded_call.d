build2/obj/store/bounded_call.o: src/store/bounded_call.c \
 src/store/bounded_call.h src/base/clock.h src/base/wait.h \
 src/base/thread.h
src/store/bounded_call.h:
src/base/clock.h:
src/base/wait.h:
src/base/thread.h:
