//! A small web server with configured responses that records its requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// A received request.
#[derive(Debug, Clone)]
pub struct Request {
    pub line: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// Reaction of the server to a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Everything after `HTTP/1.1 `, without the body and its length.
    Answer(&'static str, &'static str),
    /// A status, and a body that never ends.
    Endless(&'static str),
    /// No response.
    Hang,
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
}

/// The server. It ends when it is dropped.
pub struct Hook {
    port: u16,
    seen: Arc<Mutex<Vec<Request>>>,
    _running: AbortOnDropHandle<()>,
}

impl Hook {
    /// Starts a server that calls `answer` for each request.
    pub async fn start<F>(answer: impl Fn(Request) -> F + Send + Sync + 'static) -> Hook
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = seen.clone();
        let answer = Arc::new(answer);
        let running = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, seen) = (answer.clone(), noted.clone());
                // If a connection fails, the client sees the error.
                connections.spawn(async move { serve(stream, &*answer, &seen).await.ok() });
            }
        });
        Hook {
            port,
            seen,
            _running: AbortOnDropHandle::new(running),
        }
    }

    /// Starts a server that always replies the same.
    pub async fn always(reply: Reply) -> Hook {
        Self::start(move |_| std::future::ready(reply.clone())).await
    }

    pub fn url(&self) -> String {
        format!(
            "http://127.0.0.1:{}/hooks/s3cret-path?token=s3cret-query",
            self.port
        )
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns all requests so far.
    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve<F>(
    stream: TcpStream,
    answer: &(impl Fn(Request) -> F + Send + Sync),
    seen: &Mutex<Vec<Request>>,
) -> std::io::Result<()>
where
    F: Future<Output = Reply> + Send,
{
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await? {
        seen.lock().unwrap().push(request.clone());
        match answer(request).await {
            Reply::Answer(head, body) => {
                let length = body.len();
                let text = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}");
                stream.write_all(text.as_bytes()).await?;
            }
            Reply::Endless(head) => {
                let text = format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\n");
                stream.write_all(text.as_bytes()).await?;
                loop {
                    stream.write_all(&[b'x'; 4096]).await?;
                }
            }
            Reply::Hang => std::future::pending().await,
            Reply::Close => return Ok(()),
            Reply::Reset => {
                // A socket with zero linger is closed with a reset.
                return stream.get_ref().set_zero_linger();
            }
        }
    }
    Ok(())
}

async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let line = lines.remove(0);
    let headers: BTreeMap<_, _> = lines
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .map_or(0, |it| it.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(Request {
        line,
        headers,
        body,
    }))
}
