//! Codes of problems, with their statuses and their texts in each language: one table.

use http::StatusCode;

use crate::lock::Language;

/// Title and detail of a problem in one language. The detail says what to do next.
pub type ProblemText = (&'static str, &'static str);

/// The component that responds with a problem. A code may have another status or text in another component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemSource {
    /// The HTTP API (`turno serve`).
    Server,
    /// The once layer around a service.
    OnceLayer,
    /// The gate, about its connection to the service.
    Gate,
}

/// A row of the table.
struct Row {
    code: &'static str,
    status: u16,
    source: ProblemSource,
    english: ProblemText,
    spanish: ProblemText,
}

/// Creates the codes and their table from one list.
macro_rules! codes {
    ($($source:ident { $($name:ident = $code:literal $status:literal $english:tt $spanish:tt)* })*) => {
        /// The reason of a problem. On the wire it is the stable text of [`ProblemCode::as_str`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum ProblemCode {
            $($(#[doc = concat!("`", $code, "`")] $name,)*)*
        }

        const TABLE: &[Row] = &[$($(Row {
            code: $code,
            status: $status,
            source: ProblemSource::$source,
            english: $english,
            spanish: $spanish,
        },)*)*];

        impl ProblemCode {
            /// All codes, in the order of the documentation.
            pub const ALL: &[ProblemCode] = &[$($(ProblemCode::$name,)*)*];
        }
    };
}

codes! {
    Server {
        Busy = "busy" 409
            ("The resource is locked",
             "Another owner holds it. Try again later, or wait for it with `wait`.")
            ("El recurso está bloqueado",
             "Lo tiene otro. Inténtelo más tarde, o espérelo con `wait`.")
        NotHeld = "not_held" 409
            ("This token does not hold the lock",
             "Nothing was broken. Read the status of the lock, and send the token of its current holder.")
            ("Ese token no tiene el bloqueo",
             "No se rompió nada. Mire quién lo tiene ahora y nombre ese token.")
        Lost = "lost" 410
            ("The lease is lost",
             "It has expired, was released, or was broken. Stop the work, and acquire the lock again.")
            ("El arrendamiento se ha perdido",
             "Venció, se liberó o se rompió. Detenga el trabajo y adquiera de nuevo el bloqueo.")
        Stale = "stale" 410
            ("The claim is stale",
             "Another run counts, or this run has ended. Begin again to get the answer.")
            ("La reserva ya no vale",
             "Cuenta la ejecución de otro, o ya terminó. Empiece de nuevo para obtener su respuesta.")
        InFlight = "in_flight" 409
            ("The work is in flight",
             "Another run has not ended. Repeat the request later, or wait for the answer with `wait`.")
            ("El trabajo está en curso",
             "Alguien lo está haciendo. Pregunte de nuevo en un momento, o espérelo con `wait`.")
        Unknown = "unknown" 409
            ("It is unknown whether the work was done",
             "The lease of an earlier run expired without an answer. Check its effects; then resolve or forget the key, or begin with `unknown: rerun`.")
            ("No se sabe si el trabajo se hizo",
             "Una ejecución anterior se interrumpió a medias. Compruebe sus efectos; después resuelva u olvide la clave, o empiece con `unknown: rerun`.")
        Answered = "answered" 409
            ("The key has an answer",
             "Only an unknown key can be resolved. Nothing was changed. Read its answer; forget the key if the answer is wrong.")
            ("La clave ya tiene respuesta",
             "Solo se resuelve una clave incierta. No se cambió nada. Mire su respuesta; olvide la clave si es errónea.")
        Mismatch = "mismatch" 422
            ("The key belongs to another request",
             "This key was used with other content. Use a new key for a new request.")
            ("La clave pertenece a otra petición",
             "Esta clave se usó con otro contenido. Use una clave nueva para una petición nueva.")
        OverQuota = "over_quota" 429
            ("Too many live keys",
             "The scope has reached its quota of live keys. Wait until some of them expire.")
            ("Demasiadas claves vivas",
             "El ámbito tiene tantas claves vivas como se permiten. Espere a que venzan algunas.")
        Invalid = "invalid" 422
            ("The request is not valid",
             "Fix the field named in `field`. Nothing was stored.")
            ("La petición no es válida",
             "Corrija el campo nombrado en `field`. No se guardó nada.")
        Malformed = "malformed" 400
            ("The request cannot be parsed",
             "Send JSON in UTF-8, and percent-encode names in paths. Nothing was stored.")
            ("La petición no puede leerse",
             "Envíe JSON en UTF-8 y codifique con % los nombres en las rutas. No se guardó nada.")
        NotFound = "not_found" 404
            ("Not found",
             "/openapi.json lists all paths.")
            ("No existe",
             "Consulte en /openapi.json todas las rutas.")
        NoQueue = "no_queue" 404
            ("The queue does not exist",
             "Nothing was ever pushed to it. Check its name: GET /v1/inbox lists all queues.")
            ("No existe esa cola",
             "Nunca se puso nada en ella. Compruebe su nombre: GET /v1/inbox lista todas las colas.")
        MethodNotAllowed = "method_not_allowed" 405
            ("The path does not support this method",
             "The header Allow lists the methods of this path.")
            ("El método no es para esta ruta",
             "La cabecera Allow nombra los que lo son.")
        TooLarge = "too_large" 413
            ("The body is too large",
             "Send less at a time. Nothing was stored.")
            ("El cuerpo es demasiado grande",
             "Envíe menos de una vez. No se guardó nada.")
        UnsupportedMediaType = "unsupported_media_type" 415
            ("The body is not JSON",
             "Send it with Content-Type: application/json. Nothing was stored.")
            ("El cuerpo no es JSON",
             "Envíelo con Content-Type: application/json. No se guardó nada.")
        Unauthorized = "unauthorized" 401
            ("An access token is required",
             "Send Authorization: Bearer TOKEN with a token from `turno token create` that is neither revoked nor expired.")
            ("Hace falta un token de acceso",
             "Envíe Authorization: Bearer TOKEN con un token creado con `turno token create` que no esté revocado ni vencido.")
        Forbidden = "forbidden" 403
            ("The access token lacks the right to do this",
             "Use a token with a higher role.")
            ("El token de acceso no puede hacer esto",
             "Use un token con un rol mayor.")
        OutOfScope = "out_of_scope" 403
            ("The access token is limited to other names",
             "Use a token whose prefix is the beginning of this name, or one without a prefix.")
            ("El token de acceso es para otros nombres",
             "Use un token cuyo prefijo sea el comienzo de este nombre, o uno sin prefijo.")
        Misdirected = "misdirected" 421
            ("This server has another name",
             "It runs without access tokens, and accepts only requests to localhost and to addresses of this machine. Create a token, or use such a name.")
            ("Este servidor tiene otro nombre",
             "Funciona sin tokens de acceso, y responde solo a localhost y a direcciones de esta máquina. Cree un token, o llámelo por ese nombre.")
        RateLimited = "rate_limited" 429
            ("Too many requests",
             "Wait for the time in Retry-After.")
            ("Demasiadas peticiones",
             "Espere lo que dice Retry-After.")
        Overloaded = "overloaded" 503
            ("The server is overloaded",
             "Nothing was done. Repeat the request later.")
            ("El servidor tiene demasiado trabajo",
             "No se hizo nada. Repita la petición en un momento.")
        ShuttingDown = "shutting_down" 503
            ("The server is shutting down",
             "Nothing was acquired or claimed. Repeat the request: another instance will process it, or this one after its restart.")
            ("El servidor se está apagando",
             "No se tomó nada. Repita la petición: responde otra instancia, o esta cuando vuelva.")
        Unavailable = "unavailable" 503
            ("The store is unavailable",
             "It is unknown whether the request was carried out. Repeat it later with the same `request`: that is safe.")
            ("El almacén no responde",
             "Puede que se haya hecho o que no. Repita la petición con el mismo `request` en un momento: es seguro.")
        Refused = "refused" 503
            ("The store rejects the request",
             "It is read-only, full, or lacks rights. The log of the server has details.")
            ("El almacén se niega",
             "Es de solo lectura, está lleno o le faltan permisos. El registro del servidor tiene los detalles.")
        Schema = "schema" 503
            ("The store has another schema version",
             "An operator must upgrade the server, or run `turno migrate`.")
            ("El esquema del almacén es de otra versión",
             "Quien opera el servidor debe actualizarlo, o ejecutar `turno migrate`.")
        Timeout = "timeout" 408
            ("The request arrived too slowly",
             "Send the whole request again. Nothing was stored.")
            ("La petición llegó demasiado despacio",
             "Envíela de nuevo, entera. No se guardó nada.")
        Broken = "broken" 500
            ("Internal error",
             "The log of the server has details, under the id of the request.")
            ("Error interno",
             "El registro del servidor tiene los detalles, con el id de la petición.")
    }
    OnceLayer {
        RequestInFlight = "in_flight" 409
            ("The request is being processed",
             "An identical request arrived before, and has not ended. Repeat the request later to get its answer.")
            ("La petición se está procesando",
             "Ya llegó la misma petición y su trabajo no ha terminado. Repítala en un momento para obtener su respuesta.")
        RequestMismatch = "mismatch" 422
            ("The key belongs to another request",
             "This key was used with other content, and nothing was done. Use a new key for a new request.")
            ("La clave pertenece a otra petición",
             "Esta clave se usó con otro contenido, y no se hizo nada. Use una clave nueva para una petición nueva.")
        RequestUnknown = "unknown" 409
            ("It is unknown whether the request was carried out",
             "The lease of an earlier run of this request expired without an answer. Check its effects before you send it with a new key.")
            ("No se sabe si la petición se llevó a cabo",
             "Una ejecución anterior de esta petición se interrumpió a medias. Compruebe sus efectos antes de enviarla con una clave nueva.")
        AnswerNotStored = "answer_not_stored" 409
            ("The request was carried out before",
             "Its answer was not stored and cannot be repeated. Check the effects of the request.")
            ("La petición ya se llevó a cabo",
             "Su respuesta no se guardó y no puede repetirse. Compruebe sus efectos.")
        AnswerStale = "stale" 409
            ("The answer arrived too late",
             "Another run of the same request counts. Repeat the request to get its answer.")
            ("La respuesta llegó demasiado tarde",
             "Cuenta otra ejecución de la misma petición. Repítala para obtener su respuesta.")
        CallerOverQuota = "over_quota" 429
            ("Too many live keys",
             "You have reached your quota of live keys. Wait until some of them expire.")
            ("Demasiadas claves vivas",
             "Tiene tantas claves vivas como se permiten. Espere a que venzan algunas.")
        Unidentified = "unidentified" 400
            ("The request cannot be identified",
             "Send the key, and a body that matches its content type and has only one interpretation.")
            ("La petición no puede distinguirse de otras",
             "Envíe la clave, y un cuerpo que sea lo que dice su tipo de contenido y que solo pueda leerse de una manera.")
        RequestTooLarge = "too_large" 413
            ("The body is too large",
             "Send less at a time.")
            ("El cuerpo es demasiado grande",
             "Envíe menos de una vez.")
        RequestTimeout = "timeout" 408
            ("The request arrived too slowly",
             "Nothing was done. Send the whole request again.")
            ("La petición llegó demasiado despacio",
             "No se hizo nada. Envíela de nuevo, entera.")
        StoreUnavailable = "store_unavailable" 503
            ("Duplicates cannot be detected at the moment",
             "The store is unavailable, and nothing was done. Repeat the request later.")
            ("Ahora no pueden distinguirse los duplicados",
             "El almacén no responde, y no se hizo nada. Repita la petición en un momento.")
        Failed = "failed" 500
            ("The request failed",
             "It is unknown what was done. Check the effects of the request.")
            ("La petición falló",
             "No se sabe qué se hizo. Compruebe sus efectos.")
    }
    Gate {
        UpstreamUnreachable = "upstream_unreachable" 502
            ("The service cannot be reached",
             "Nothing was sent to it, and nothing was done. Repeat the request later.")
            ("No se puede contactar con el servicio",
             "No se le envió nada, y no se hizo nada. Repita la petición en un momento.")
        UpstreamBroken = "upstream_broken" 502
            ("The connection to the service broke",
             "It is unknown whether the request was carried out. Check its effects.")
            ("Se interrumpió la conexión con el servicio",
             "No se sabe si la petición se llevó a cabo. Compruebe sus efectos.")
        UpstreamLate = "upstream_late" 504
            ("The service did not respond in time",
             "It is unknown whether the request was carried out. Check its effects.")
            ("El servicio no respondió a tiempo",
             "No se sabe si la petición se llevó a cabo. Compruebe sus efectos.")
        ClientTimeout = "timeout" 408
            ("The request arrived too slowly",
             "The service may have received a part of it. Send the whole request again.")
            ("La petición llegó demasiado despacio",
             "El servicio puede haber recibido una parte. Envíela de nuevo, entera.")
        NotSupported = "not_supported" 501
            ("The gate does not forward this request",
             "It supports neither CONNECT nor targets that are not a path. Send the request to the service itself.")
            ("La pasarela no transmite esto",
             "No atiende CONNECT ni direcciones que no sean una ruta. Envíelo al servicio mismo.")
    }
}

impl ProblemCode {
    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Returns the code as text. It is stable.
    pub fn as_str(self) -> &'static str {
        self.row().code
    }

    /// Returns the HTTP status.
    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.row().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the component that responds with this code.
    pub fn source(self) -> ProblemSource {
        self.row().source
    }

    /// Returns title and detail. The detail says what to do next.
    pub fn text(self, language: Language) -> ProblemText {
        match language {
            Language::English => self.row().english,
            Language::Spanish => self.row().spanish,
        }
    }

    /// Whether a retry may succeed without any intervention.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            ProblemCode::RateLimited
                | ProblemCode::Overloaded
                | ProblemCode::ShuttingDown
                | ProblemCode::Unavailable
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_status_and_a_text_in_both_languages() {
        for (place, code) in ProblemCode::ALL.iter().enumerate() {
            assert_eq!(*code as usize, place);
            assert_eq!(code.status().as_u16(), code.row().status, "{code:?}");
            let (english, spanish) = (code.row().english, code.row().spanish);
            assert_ne!(english.0, spanish.0, "{code:?}");
            assert_ne!(english.1, spanish.1, "{code:?}");
            for text in [english.0, english.1, spanish.0, spanish.1] {
                assert!(text.len() > 5, "{code:?}: {text}");
            }
        }
    }
}
