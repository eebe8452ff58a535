//! What is made of the log: a set of files of a series, and the results of one that an earlier run did not finish.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use ingest::stream::threshold::Threshold;
use kernels::types::{ScanGeometry, ScanShape};
use serde_json::Value;

use super::{Refused, Shared, conflict, refused};
use crate::optics::OpticsRequest;
use crate::report::{moment, scan_shape_in, utc};
use crate::request::RunRequest;
use crate::serve::asked::Resource;
use crate::serve::daemon::ask_for_export;
use crate::serve::jobs::{Export, Finish, nothing_recorded};
use crate::serve::recorded::Entry;

/// `POST .../export` and `POST .../finish`.
pub(super) fn router() -> Router<Shared> {
    Router::new()
        .route("/api/v1/series/{number}/export", post(export))
        .route("/api/v1/series/{number}/finish", post(finish))
}

/// The answer to a job that was taken: how far it is.
type Taken = Result<(StatusCode, Json<Value>), Refused>;

fn taken(progress: &crate::serve::jobs::Progress) -> Taken {
    Ok((StatusCode::ACCEPTED, Json(progress.json())))
}

/// Exports a series of this daemon or of an earlier run; one that is under way is not begun again.
async fn export(State(shared): State<Shared>, Path(number): Path<String>) -> Taken {
    let hub = &shared.hub;
    if shared.request.record.is_none() {
        return Err(conflict(&nothing_recorded()));
    }
    let Some(entry) = hub.recorded_before.entry(&number) else {
        let series = shared.series(&number)?;
        if let Some(progress) = series.export().filter(|progress| progress.is_under_way()) {
            return taken(&progress);
        }
        let progress = ask_for_export(&series, hub).map_err(|error| conflict(&error))?;
        hub.tell();
        return taken(&progress);
    };
    if let Some(progress) = entry.export.as_ref().filter(|progress| progress.is_under_way()) {
        return taken(progress);
    }
    let said = shared.asked_optics(&Value::Object(serde_json::Map::new()))?;
    let voltage = said.joined().voltage;
    let progress = hub.jobs.export(Export {
        key: entry.series.log_key(),
        channel: match &entry.channel {
            Some(channel) => Some(channel.name.clone()),
            // the channel of stream v1 has no name
            None => shared
                .request
                .threshold
                .one()
                .filter(|_| entry.series.channels.iter().any(|name| !name.is_empty())),
        },
        out: folder_of(&entry, &hub.exports),
        scan: scan_of(&entry, &said),
        voltage,
        durable: 0,
    });
    let progress = progress.map_err(|error| conflict(&error))?;
    hub.recorded_before.change(&number, |entry| entry.export = Some(progress.clone()));
    hub.tell();
    taken(&progress)
}

/// Exports of one name, at most.
const MOST_OF_ONE_NAME: u32 = 1000;

/// Computes a series of an earlier run from the log to its results. The body is what is known better of its microscope, with
/// the keys of the optics; empty for what is asked for of the next series.
async fn finish(
    State(shared): State<Shared>,
    Path(number): Path<String>,
    body: Option<Json<Value>>,
) -> Taken {
    let hub = &shared.hub;
    let Some(entry) = hub.recorded_before.entry(&number) else {
        shared.series(&number)?;
        let why = "the series is of this run of the daemon: it was finished, or its results are made again by its optics";
        return Err(refused(StatusCode::CONFLICT, why));
    };
    let Some(log) = shared.request.record.as_ref().map(|settings| settings.folder.clone()) else {
        return Err(conflict(&nothing_recorded()));
    };
    if let Some(progress) = entry.finish.as_ref().filter(|progress| progress.is_under_way()) {
        return match body {
            None => taken(progress),
            Some(_) => Err(conflict(&anyhow::anyhow!(
                "it is being finished by what was asked for before; ask again when that is done"
            ))),
        };
    }
    let body = body.map_or_else(|| Value::Object(serde_json::Map::new()), |Json(body)| body);
    let optics = shared.asked_optics(&body)?;
    let asked = hub.asked();
    let rings = asked.rings(shared.request.rings).map_err(|error| conflict(&error))?;
    let request = RunRequest {
        master: log,
        series: None,
        threshold: match &entry.channel {
            Some(channel) => Threshold::Name(channel.name.clone()),
            None => shared.request.threshold.one().map_or(Threshold::First, Threshold::Name),
        },
        out: shared.request.out.clone(),
        optics,
        processor: shared.request.processor.clone(),
        memory_budget_bytes: shared.request.memory_budget_bytes,
        at_once: 1,
        threads: None,
        loss: asked.moments() == ssb::Moments::Compute,
        quiet: true,
        rings,
        stop: shared.request.stop.clone(),
    };
    let channel_folder = entry.channel.as_ref().map(|channel| channel.folder.clone());
    let finish = Finish { request, key: entry.series.log_key(), channel_folder };
    let progress = hub.jobs.finish(finish).map_err(|error| conflict(&error))?;
    hub.recorded_before.change(&number, |entry| entry.finish = Some(progress.clone()));
    hub.tell();
    taken(&progress)
}

/// The shape of the scan of a series of the log: that of its results, else the one that is said, where it makes the images
/// that were announced.
fn scan_of(entry: &Entry, said: &OpticsRequest) -> Option<ScanShape> {
    let made = entry.folder.as_deref().and_then(scan_shape_in);
    made.or_else(|| {
        let shape = said.joined().scan_shape?;
        let images = entry.series.num_images.unwrap_or_else(|| entry.series.frames.end());
        let geometry = ScanGeometry::new(shape, said.frame_order()).ok()?;
        [geometry.num_frames(), geometry.num_frames_with_last_flyback()].contains(&images).then_some(shape)
    })
}

/// A folder for the set of a series of the log, made and empty, named as that of its results would be; with `-2` and so on
/// behind it where another set has the name.
fn folder_of(entry: &Entry, exports: &std::path::Path) -> std::path::PathBuf {
    let begun = moment(entry.series.first_arrival_nanos);
    let name = format!("{}-series-{:06}", utc(begun).replace(':', ""), entry.series.key.id);
    let channel = entry.channel.as_ref().map(|channel| channel.folder.as_str());
    new_folder(exports, &name, channel)
}

fn new_folder(exports: &std::path::Path, name: &str, channel: Option<&str>) -> std::path::PathBuf {
    let named = |number: u32| match number {
        1 => exports.join(name),
        _ => exports.join(format!("{name}-{number}")),
    };
    for number in 1..MOST_OF_ONE_NAME {
        let whole = named(number);
        let folder = channel.map_or_else(|| whole.clone(), |channel| whole.join(channel));
        let above = folder.parent().unwrap_or(exports);
        match std::fs::create_dir_all(above).and_then(|()| std::fs::create_dir(&folder)) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            // why it cannot be made is said by who writes there
            _ => return folder,
        }
    }
    named(MOST_OF_ONE_NAME)
}

impl Shared {
    /// What is said of the microscope, joined with what is said now.
    fn asked_optics(&self, body: &Value) -> Result<OpticsRequest, Refused> {
        let wrong = |error: anyhow::Error| refused(StatusCode::UNPROCESSABLE_ENTITY, &format!("{error:#}"));
        let asked = self.hub.asked().with(Resource::Optics, body).map_err(wrong)?;
        let asked = asked.optics().map_err(wrong)?;
        Ok(OpticsRequest { asked, ..self.request.optics.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::new_folder;

    #[test]
    fn sets_of_one_name_get_folders_of_their_own_and_channels_share_one() {
        let exports = tempfile::tempdir().unwrap();
        let new = |channel| {
            let folder = new_folder(exports.path(), "t-series-000007", channel);
            folder.strip_prefix(exports.path()).unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(
            [new(None), new(None), new(None)],
            ["t-series-000007", "t-series-000007-2", "t-series-000007-3"]
        );
        assert_eq!(new(Some("a")), "t-series-000007/a");
        assert_eq!([new(Some("b")), new(Some("a"))], ["t-series-000007/b", "t-series-000007-2/a"]);
    }
}
