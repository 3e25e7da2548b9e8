build2/obj/store/message_ids.o: src/store/message_ids.c \
 src/store/message_ids.h src/store/state_file.h src/sql/query.h \
 src/base/hash.h src/base/log.h
src/store/message_ids.h:
src/store/state_file.h:
src/sql/query.h:
src/base/hash.h:
src/base/log.h:
