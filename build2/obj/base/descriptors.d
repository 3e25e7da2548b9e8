build2/obj/base/descriptors.o: src/base/descriptors.c \
 src/base/descriptors.h src/base/cleanup.h src/base/log.h
src/base/descriptors.h:
src/base/cleanup.h:
src/base/log.h:
