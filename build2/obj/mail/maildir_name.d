build2/obj/mail/maildir_name.o: src/mail/maildir_name.c \
 src/mail/maildir_name.h
src/mail/maildir_name.h:
