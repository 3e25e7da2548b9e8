build2/obj/mail/mime_library.o: src/mail/mime_library.c \
 src/mail/mime_library.h
src/mail/mime_library.h:
