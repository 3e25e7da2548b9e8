build2/obj/base/secret_file.o: src/base/secret_file.c \
 src/base/secret_file.h src/base/character.h src/base/cleanup.h \
 src/base/file.h
src/base/secret_file.h:
src/base/character.h:
src/base/cleanup.h:
src/base/file.h:
