build2/obj/store/number_table.o: src/store/number_table.c \
 src/store/number_table.h
src/store/number_table.h:
