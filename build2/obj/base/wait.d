build2/obj/base/wait.o: src/base/wait.c src/base/wait.h src/base/clock.h \
 src/base/random.h
src/base/wait.h:
src/base/clock.h:
src/base/random.h:
