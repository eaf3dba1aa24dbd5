-- Purpose: remember what was answered to a request. ?1 request ?2 verb ?3 now ?4 answer.
insert into turno_inbox_request (request, verb, at, answer)
values (?1, ?2, ?3, ?4)
