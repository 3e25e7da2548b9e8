build2/obj/mail/transfer_encoding.o: src/mail/transfer_encoding.c \
 src/mail/transfer_encoding.h src/mail/mime.h src/base/cleanup.h
src/mail/transfer_encoding.h:
src/mail/mime.h:
src/base/cleanup.h:
