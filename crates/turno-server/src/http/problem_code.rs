//! Codes of problems, with their statuses and their texts in each language.

use http::StatusCode;
use turno::lock::Language;

/// The `code` of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemCode {
    Busy,
    NotHeld,
    Lost,
    Stale,
    InFlight,
    Unknown,
    Answered,
    Mismatch,
    OverQuota,
    Invalid,
    Malformed,
    NotFound,
    NoQueue,
    MethodNotAllowed,
    TooLarge,
    UnsupportedMediaType,
    Unauthorized,
    Forbidden,
    OutOfScope,
    Misdirected,
    RateLimited,
    Overloaded,
    ShuttingDown,
    Unavailable,
    Refused,
    Schema,
    Timeout,
    Broken,
}

impl ProblemCode {
    /// Every one, in their order.
    pub(crate) const ALL: [ProblemCode; 28] = [
        ProblemCode::Busy,
        ProblemCode::NotHeld,
        ProblemCode::Lost,
        ProblemCode::Stale,
        ProblemCode::InFlight,
        ProblemCode::Unknown,
        ProblemCode::Answered,
        ProblemCode::Mismatch,
        ProblemCode::OverQuota,
        ProblemCode::Invalid,
        ProblemCode::Malformed,
        ProblemCode::NotFound,
        ProblemCode::NoQueue,
        ProblemCode::MethodNotAllowed,
        ProblemCode::TooLarge,
        ProblemCode::UnsupportedMediaType,
        ProblemCode::Unauthorized,
        ProblemCode::Forbidden,
        ProblemCode::OutOfScope,
        ProblemCode::Misdirected,
        ProblemCode::RateLimited,
        ProblemCode::Overloaded,
        ProblemCode::ShuttingDown,
        ProblemCode::Unavailable,
        ProblemCode::Refused,
        ProblemCode::Schema,
        ProblemCode::Timeout,
        ProblemCode::Broken,
    ];

    /// Returns the code as text. It is stable.
    pub(crate) fn as_str(self) -> &'static str {
        self.entry().0
    }

    /// Returns the HTTP status.
    pub(crate) fn status(self) -> StatusCode {
        self.entry().1
    }

    /// Returns title and detail. The detail says what to do next.
    pub(crate) fn words(self, language: Language) -> (&'static str, &'static str) {
        match language {
            Language::English => self.entry().2,
            Language::Spanish => self.entry().3,
        }
    }

    /// Whether a retry may succeed without any intervention.
    pub(crate) fn is_transient(self) -> bool {
        matches!(
            self,
            ProblemCode::RateLimited
                | ProblemCode::Overloaded
                | ProblemCode::ShuttingDown
                | ProblemCode::Unavailable
        )
    }

    fn entry(
        self,
    ) -> (
        &'static str,
        StatusCode,
        (&'static str, &'static str),
        (&'static str, &'static str),
    ) {
        match self {
            ProblemCode::Busy => (
                "busy",
                StatusCode::CONFLICT,
                (
                    "The resource is locked",
                    "Somebody else has it. Try again later, or wait for it with `wait`.",
                ),
                (
                    "El recurso está bloqueado",
                    "Lo tiene otro. Inténtelo más tarde, o espérelo con `wait`.",
                ),
            ),
            ProblemCode::NotHeld => (
                "not_held",
                StatusCode::CONFLICT,
                (
                    "That token does not hold the lock",
                    "Nothing was broken. Look at who holds it now, and name that token.",
                ),
                (
                    "Ese token no tiene el bloqueo",
                    "No se rompió nada. Mire quién lo tiene ahora y nombre ese token.",
                ),
            ),
            ProblemCode::Lost => (
                "lost",
                StatusCode::GONE,
                (
                    "The lease is lost",
                    "It has expired, was released, or was broken. Stop the work, and acquire the lock again.",
                ),
                (
                    "El arrendamiento se ha perdido",
                    "Venció, se liberó o se rompió. Detenga el trabajo y adquiera de nuevo el bloqueo.",
                ),
            ),
            ProblemCode::Stale => (
                "stale",
                StatusCode::GONE,
                (
                    "The claim is stale",
                    "Somebody else's run counts, or it has ended. Begin again to get its answer.",
                ),
                (
                    "La reserva ya no vale",
                    "Cuenta la ejecución de otro, o ya terminó. Empiece de nuevo para obtener su respuesta.",
                ),
            ),
            ProblemCode::InFlight => (
                "in_flight",
                StatusCode::CONFLICT,
                (
                    "The work is in flight",
                    "Somebody does it. Ask again in a moment, or wait for it with `wait`.",
                ),
                (
                    "El trabajo está en curso",
                    "Alguien lo está haciendo. Pregunte de nuevo en un momento, o espérelo con `wait`.",
                ),
            ),
            ProblemCode::Unknown => (
                "unknown",
                StatusCode::CONFLICT,
                (
                    "It is not known whether the work was done",
                    "An earlier run vanished half-way. Look for its effects; then resolve or forget the key, or begin with `unknown: rerun`.",
                ),
                (
                    "No se sabe si el trabajo se hizo",
                    "Una ejecución anterior se interrumpió a medias. Compruebe sus efectos; después resuelva u olvide la clave, o empiece con `unknown: rerun`.",
                ),
            ),
            ProblemCode::Answered => (
                "answered",
                StatusCode::CONFLICT,
                (
                    "The key has an answer",
                    "Only an unknown key can be resolved. Nothing was changed. Look at its answer; forget the key if that is wrong.",
                ),
                (
                    "La clave ya tiene respuesta",
                    "Solo se resuelve una clave incierta. No se cambió nada. Mire su respuesta; olvide la clave si es errónea.",
                ),
            ),
            ProblemCode::Mismatch => (
                "mismatch",
                StatusCode::UNPROCESSABLE_ENTITY,
                (
                    "The key belongs to another request",
                    "This key was used with other content. Use a new key for a new request.",
                ),
                (
                    "La clave pertenece a otra petición",
                    "Esta clave se usó con otro contenido. Use una clave nueva para una petición nueva.",
                ),
            ),
            ProblemCode::OverQuota => (
                "over_quota",
                StatusCode::TOO_MANY_REQUESTS,
                (
                    "Too many live keys",
                    "The scope has as many live keys as it may. Wait until some of them are over.",
                ),
                (
                    "Demasiadas claves vivas",
                    "El ámbito tiene tantas claves vivas como se permiten. Espere a que venzan algunas.",
                ),
            ),
            ProblemCode::Invalid => (
                "invalid",
                StatusCode::UNPROCESSABLE_ENTITY,
                (
                    "The request is not valid",
                    "Mend the field that is named. Nothing was stored.",
                ),
                (
                    "La petición no es válida",
                    "Corrija el campo nombrado. No se guardó nada.",
                ),
            ),
            ProblemCode::Malformed => (
                "malformed",
                StatusCode::BAD_REQUEST,
                (
                    "The request cannot be read",
                    "Send JSON in UTF-8, and percent-encode names in paths. Nothing was stored.",
                ),
                (
                    "La petición no puede leerse",
                    "Envíe JSON en UTF-8 y codifique con % los nombres en las rutas. No se guardó nada.",
                ),
            ),
            ProblemCode::NotFound => (
                "not_found",
                StatusCode::NOT_FOUND,
                (
                    "There is no such thing",
                    "See /openapi.json for what there is.",
                ),
                ("No existe", "Consulte en /openapi.json lo que hay."),
            ),
            ProblemCode::NoQueue => (
                "no_queue",
                StatusCode::NOT_FOUND,
                (
                    "There is no such queue",
                    "Nothing was ever pushed to it. Check its name: GET /v1/inbox lists all queues.",
                ),
                (
                    "No existe esa cola",
                    "Nunca se puso nada en ella. Compruebe su nombre: GET /v1/inbox lista todas las colas.",
                ),
            ),
            ProblemCode::MethodNotAllowed => (
                "method_not_allowed",
                StatusCode::METHOD_NOT_ALLOWED,
                (
                    "The method is not for this path",
                    "The header Allow names those that are.",
                ),
                (
                    "El método no es para esta ruta",
                    "La cabecera Allow nombra los que lo son.",
                ),
            ),
            ProblemCode::TooLarge => (
                "too_large",
                StatusCode::PAYLOAD_TOO_LARGE,
                (
                    "The body is too large",
                    "Send less at a time. Nothing was stored.",
                ),
                (
                    "El cuerpo es demasiado grande",
                    "Envíe menos de una vez. No se guardó nada.",
                ),
            ),
            ProblemCode::UnsupportedMediaType => (
                "unsupported_media_type",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                (
                    "The body is not JSON",
                    "Send it with Content-Type: application/json. Nothing was stored.",
                ),
                (
                    "El cuerpo no es JSON",
                    "Envíelo con Content-Type: application/json. No se guardó nada.",
                ),
            ),
            ProblemCode::Unauthorized => (
                "unauthorized",
                StatusCode::UNAUTHORIZED,
                (
                    "An access token is needed",
                    "Send Authorization: Bearer TOKEN with a token that `turno token create` made, and that is neither revoked nor expired.",
                ),
                (
                    "Hace falta un token de acceso",
                    "Envíe Authorization: Bearer TOKEN con un token creado con `turno token create` que no esté revocado ni vencido.",
                ),
            ),
            ProblemCode::Forbidden => (
                "forbidden",
                StatusCode::FORBIDDEN,
                (
                    "The access token may not do this",
                    "Use a token with a higher role.",
                ),
                (
                    "El token de acceso no puede hacer esto",
                    "Use un token con un rol mayor.",
                ),
            ),
            ProblemCode::OutOfScope => (
                "out_of_scope",
                StatusCode::FORBIDDEN,
                (
                    "The access token is for other names",
                    "Use a token whose prefix is the beginning of this name, or one without a prefix.",
                ),
                (
                    "El token de acceso es para otros nombres",
                    "Use un token cuyo prefijo sea el comienzo de este nombre, o uno sin prefijo.",
                ),
            ),
            ProblemCode::Misdirected => (
                "misdirected",
                StatusCode::MISDIRECTED_REQUEST,
                (
                    "This server has another name",
                    "It runs without access tokens, and answers only to localhost and to addresses of this machine. Make a token, or call it by such a name.",
                ),
                (
                    "Este servidor tiene otro nombre",
                    "Funciona sin tokens de acceso, y responde solo a localhost y a direcciones de esta máquina. Cree un token, o llámelo por ese nombre.",
                ),
            ),
            ProblemCode::RateLimited => (
                "rate_limited",
                StatusCode::TOO_MANY_REQUESTS,
                ("Too many requests", "Wait as long as Retry-After says."),
                ("Demasiadas peticiones", "Espere lo que dice Retry-After."),
            ),
            ProblemCode::Overloaded => (
                "overloaded",
                StatusCode::SERVICE_UNAVAILABLE,
                (
                    "The server has too much to do",
                    "Nothing was done. Repeat the request in a moment.",
                ),
                (
                    "El servidor tiene demasiado trabajo",
                    "No se hizo nada. Repita la petición en un momento.",
                ),
            ),
            ProblemCode::ShuttingDown => (
                "shutting_down",
                StatusCode::SERVICE_UNAVAILABLE,
                (
                    "The server is shutting down",
                    "Nothing was taken. Repeat the request: another instance answers, or this one when it is back.",
                ),
                (
                    "El servidor se está apagando",
                    "No se tomó nada. Repita la petición: responde otra instancia, o esta cuando vuelva.",
                ),
            ),
            ProblemCode::Unavailable => (
                "unavailable",
                StatusCode::SERVICE_UNAVAILABLE,
                (
                    "The store does not answer",
                    "It may or may not have been done. Repeat the request with the same `request` in a moment: that is safe.",
                ),
                (
                    "El almacén no responde",
                    "Puede que se haya hecho o que no. Repita la petición con el mismo `request` en un momento: es seguro.",
                ),
            ),
            ProblemCode::Refused => (
                "refused",
                StatusCode::SERVICE_UNAVAILABLE,
                (
                    "The store refuses",
                    "It is read-only, full, or lacks rights. Whoever runs the server finds more in its log.",
                ),
                (
                    "El almacén se niega",
                    "Es de solo lectura, está lleno o le faltan permisos. Quien opera el servidor encuentra más en su registro.",
                ),
            ),
            ProblemCode::Schema => (
                "schema",
                StatusCode::SERVICE_UNAVAILABLE,
                (
                    "The store's schema is of another version",
                    "Whoever runs the server has to upgrade it, or run `turno migrate`.",
                ),
                (
                    "El esquema del almacén es de otra versión",
                    "Quien opera el servidor debe actualizarlo, o ejecutar `turno migrate`.",
                ),
            ),
            ProblemCode::Timeout => (
                "timeout",
                StatusCode::REQUEST_TIMEOUT,
                (
                    "The request came too slowly",
                    "Send it again, whole. Nothing was stored.",
                ),
                (
                    "La petición llegó demasiado despacio",
                    "Envíela de nuevo, entera. No se guardó nada.",
                ),
            ),
            ProblemCode::Broken => (
                "broken",
                StatusCode::INTERNAL_SERVER_ERROR,
                (
                    "Something is broken",
                    "Whoever runs the server finds more in its log, under the request's id.",
                ),
                (
                    "Algo está roto",
                    "Quien opera el servidor encuentra más en su registro, con el id de la petición.",
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_code_is_left_out() {
        assert!(
            (0..)
                .zip(ProblemCode::ALL)
                .all(|(place, code)| place == code as usize)
        );
        assert_eq!(
            ProblemCode::ALL.len(),
            ProblemCode::Broken as usize + 1,
            "the last one"
        );
    }
}
