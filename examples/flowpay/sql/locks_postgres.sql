-- Purpose: the rows of tbl_lock with their users. $1 tipoRecurso or null, $2 idrecurso or null, $3 activo or null, $4 order, $5 limit.
-- Index:   tbl_usuario_pkey.
select
  l.idlock,
  l."tipoRecurso",
  l.idrecurso,
  l.idusuario,
  u.nombre,
  l.descripcion,
  l.activo,
  to_char(l."fechaCreacion" at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
  to_char(l."fechaExpiracion" at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
  to_char(l."fechaLiberacion" at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
  l.evento
from tbl_lock_filas() l
left join tbl_usuario u on u.idusuario = l.idusuario
where ($1::text is null or l."tipoRecurso" = $1)
  and ($2::bigint is null or l.idrecurso = $2)
  and ($3::boolean is null or l.activo = $3)
order by
  case when $4 = 'EXPIRAN_PRIMERO' then l."fechaExpiracion" end,
  case when $4 = 'EXPIRAN_ULTIMO' then l."fechaExpiracion" end desc,
  l."fechaCreacion" desc,
  l.idlock desc
limit $5
