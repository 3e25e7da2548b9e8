build2/obj/base/log.o: src/base/log.c src/base/log.h src/base/character.h
src/base/log.h:
src/base/character.h:
