build2/obj/base/character.o: src/base/character.c src/base/character.h
src/base/character.h:
