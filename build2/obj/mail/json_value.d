build2/obj/mail/json_value.o: src/mail/json_value.c src/mail/json_value.h \
 src/base/strbuf.h
src/mail/json_value.h:
src/base/strbuf.h:
