build2/obj/base/mountinfo.o: src/base/mountinfo.c src/base/mountinfo.h \
 src/base/cleanup.h src/base/file.h
src/base/mountinfo.h:
src/base/cleanup.h:
src/base/file.h:
