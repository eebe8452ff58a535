//! What can be changed: the microscope, the virtual detectors and the reconstruction, of one series and of the next.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;

use super::{Refused, Shared, refused};
use crate::serve::asked::Resource;
use crate::serve::daemon::ask_of_next;

/// `/api/v1/<resource>` for the next series, `/api/v1/series/<number>/<resource>` for one.
pub(super) fn router() -> Router<Shared> {
    [Resource::Optics, Resource::Geometry, Resource::Masks, Resource::Reconstruction].into_iter().fold(
        Router::new(),
        |router, resource| {
            let name = match resource {
                Resource::Optics => "optics",
                Resource::Geometry => "geometry",
                Resource::Masks => "masks",
                Resource::Reconstruction => "reconstruction",
            };
            let defaults = get(async move |State(shared): State<Shared>| shared.defaults(resource)).put(
                async move |State(shared): State<Shared>, Json(body): Json<Value>| {
                    let Shared { request, hub, .. } = &shared;
                    ask_of_next(request, hub, resource, &body).map_err(|error| wrong(&error))?;
                    shared.defaults(resource)
                },
            );
            let of_one = get(async move |State(shared): State<Shared>, Path(number): Path<String>| {
                shared.chosen(&number, resource)
            })
            .put(
                async move |State(shared): State<Shared>,
                            Path(number): Path<String>,
                            Json(body): Json<Value>| {
                    shared.change(&number, resource, body).await
                },
            );
            router
                .route(&format!("/api/v1/{name}"), defaults)
                .route(&format!("/api/v1/series/{{number}}/{name}"), of_one)
        },
    )
}

/// What cannot be, in words.
fn wrong(error: &anyhow::Error) -> Refused {
    refused(StatusCode::UNPROCESSABLE_ENTITY, &format!("{error:#}"))
}

impl Shared {
    fn defaults(&self, resource: Resource) -> Result<Json<Value>, Refused> {
        self.hub.defaults_json(resource).map(Json).map_err(|error| wrong(&error))
    }

    fn chosen(&self, number: &str, resource: Resource) -> Result<Json<Value>, Refused> {
        let chosen = self.series(number)?.chosen_json(resource);
        chosen.map(Json).ok_or_else(|| refused(StatusCode::CONFLICT, "the series could not begin"))
    }

    /// Changes something of a series; results that are there already are made again before it answers.
    async fn change(&self, number: &str, resource: Resource, body: Value) -> Result<Json<Value>, Refused> {
        let series = self.series(number)?;
        series.ask(resource, &body).map_err(|error| wrong(&error))?;
        self.hub.tell();
        let hub = self.hub.clone();
        let remade = series.clone();
        let work = move || {
            remade.remake()?;
            remade.say_outcome(&|line| hub.say(line));
            hub.tell();
            Ok(())
        };
        self.compute(work).await?;
        self.chosen(number, resource)
    }
}
