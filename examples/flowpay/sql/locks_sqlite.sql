-- Purpose: the rows of tbl_lock with their users. $1 tipoRecurso or null, $2 idrecurso or null, $3 activo or null, $4 order, $5 limit.
-- Index:   the primary key of tbl_usuario.
select
  l.idlock,
  l.tipoRecurso,
  l.idrecurso,
  l.idusuario,
  u.nombre,
  l.descripcion,
  l.activo,
  l.fechaCreacion,
  l.fechaExpiracion,
  l.fechaLiberacion,
  l.evento
from tbl_lock l
left join tbl_usuario u on u.idusuario = l.idusuario
where ($1 is null or l.tipoRecurso = $1)
  and ($2 is null or l.idrecurso = $2)
  and ($3 is null or l.activo = $3)
order by
  iif($4 = 'EXPIRAN_PRIMERO', l.fechaExpiracion, null),
  iif($4 = 'EXPIRAN_ULTIMO', l.fechaExpiracion, null) desc,
  l.fechaCreacion desc,
  l.idlock desc
limit $5
