build2/obj/tests/support/scripted_server.o: \
 tests/support/scripted_server.c tests/support/scripted_server.h \
 tests/support/scripted_answer.h
tests/support/scripted_server.h:
tests/support/scripted_answer.h:
