build2/obj/tests/support/scripted_answer.o: \
 tests/support/scripted_answer.c tests/support/scripted_answer.h \
 tests/support/scripted_server.h
tests/support/scripted_answer.h:
tests/support/scripted_server.h:
