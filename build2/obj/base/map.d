build2/obj/base/map.o: src/base/map.c src/base/map.h src/base/hash.h \
 src/base/random.h
src/base/map.h:
src/base/hash.h:
src/base/random.h:
