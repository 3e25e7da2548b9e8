build2/obj/base/file.o: src/base/file.c src/base/file.h src/base/cleanup.h
src/base/file.h:
src/base/cleanup.h:
