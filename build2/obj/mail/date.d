build2/obj/mail/date.o: src/mail/date.c src/mail/date.h
src/mail/date.h:
