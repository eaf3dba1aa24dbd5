-- Calls turno.settings.
select name, value, default_value, meaning
from turno.settings()
