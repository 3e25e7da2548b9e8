build2/obj/base/process.o: src/base/process.c src/base/process.h
src/base/process.h:
