build2/obj/sql/query.o: src/sql/query.c src/sql/query.h src/base/cleanup.h
src/sql/query.h:
src/base/cleanup.h:
