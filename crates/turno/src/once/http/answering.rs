//! Future of the layer's response.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use pin_project_lite::pin_project;

use super::Carried;

type Handled<R, E> = Pin<Box<dyn Future<Output = Result<Response<Carried<R>>, E>> + Send>>;

pin_project! {
    /// Future of a response. For a request without a policy it costs next to nothing: it is the service's own future.
    pub struct Answering<F, R, E> {
        #[pin]
        how: State<F, R, E>,
    }
}

pin_project! {
    #[project = HowNow]
    enum State<F, R, E> {
        Passed {
            #[pin]
            answer: F,
        },
        Handled { answer: Handled<R, E> },
    }
}

impl<F, R, E> Answering<F, R, E> {
    /// Returns the service's response.
    pub(super) fn passed(answer: F) -> Self {
        Answering {
            how: State::Passed { answer },
        }
    }

    /// Returns the layer's response.
    pub(super) fn handled(
        answer: impl Future<Output = Result<Response<Carried<R>>, E>> + Send + 'static,
    ) -> Self {
        let answer: Handled<R, E> = Box::pin(answer);
        Answering {
            how: State::Handled { answer },
        }
    }
}

impl<F, R, E> fmt::Debug for Answering<F, R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").finish_non_exhaustive()
    }
}

impl<F, R, E> Future for Answering<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<Carried<R>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().how.project() {
            HowNow::Passed { answer } => answer
                .poll(context)
                .map_ok(|answer| answer.map(Carried::untouched)),
            HowNow::Handled { answer } => answer.as_mut().poll(context),
        }
    }
}
