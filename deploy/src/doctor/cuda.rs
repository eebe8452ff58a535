//! CUDA: whether the driver is there, what it says, and why not when it does not.

use cudarc::driver::{result, sys};
use serde::Serialize;

use super::gigabytes;

/// What CUDA says of itself.
#[derive(Clone, Debug, Serialize)]
pub struct CudaReport {
    /// Version of CUDA the driver speaks, such as `13.0`.
    pub driver_version: Option<String>,
    /// The devices.
    pub devices: Vec<CudaDevice>,
    /// Why there is no device.
    pub problem: Option<String>,
}

/// One CUDA device.
#[derive(Clone, Debug, Serialize)]
pub struct CudaDevice {
    /// Its name.
    pub name: String,
    /// Its memory.
    pub memory_bytes: u64,
    /// Compute capability (major, minor).
    pub compute_capability: [i32; 2],
}

impl CudaDevice {
    pub(super) fn text(&self) -> String {
        let [major, minor] = self.compute_capability;
        format!("{}, {}, compute capability {major}.{minor}", self.name, gigabytes(self.memory_bytes))
    }
}

impl CudaReport {
    /// Asks the driver, if there is one. Never fails and never panics: whatever is wrong becomes `problem`.
    pub(super) fn examine() -> Self {
        // A driver library that lacks a function makes the loader panic; that is a finding too.
        match std::panic::catch_unwind(ask) {
            Ok(report) => report,
            Err(_) => Self::without(
                "the driver library is there but lacks functions; it is damaged or too old".to_owned(),
            ),
        }
    }

    fn without(problem: String) -> Self {
        Self { driver_version: None, devices: Vec::new(), problem: Some(problem) }
    }

    pub(super) fn text(&self) -> String {
        let version = self.driver_version.as_ref().map(|version| format!("driver speaks CUDA {version}"));
        let found = match (&self.problem, self.devices.len()) {
            (Some(problem), _) => format!("not found: {problem}"),
            (None, 1) => "1 device".to_owned(),
            (None, many) => format!("{many} devices"),
        };
        version.map_or(found.clone(), |version| format!("{found} ({version})"))
    }
}

fn ask() -> CudaReport {
    // SAFETY: loads the driver library and drops it again; the driver's start-up code expects no state of ours.
    if !unsafe { sys::is_culib_present() } {
        return CudaReport::without("no NVIDIA driver library (libcuda) on this machine".to_owned());
    }
    let driver_version = driver_version();
    let (devices, problem) = match devices() {
        Ok(devices) if devices.is_empty() => {
            (devices, Some("the driver is there but lists no device".to_owned()))
        }
        Ok(devices) => (devices, None),
        Err(error) => (Vec::new(), Some(format!("the driver is there but refuses: {error:?}"))),
    };
    CudaReport { driver_version, devices, problem }
}

fn driver_version() -> Option<String> {
    let mut version = 0;
    // SAFETY: the library is present (checked by the caller) and `version` is one int it may write.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().ok()?;
    Some(format!("{}.{}", version / 1000, version % 1000 / 10))
}

fn devices() -> Result<Vec<CudaDevice>, result::DriverError> {
    use sys::CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };
    result::init()?;
    let mut devices = Vec::new();
    for ordinal in 0..result::device::get_count()? {
        let device = result::device::get(ordinal)?;
        // SAFETY: `device` was returned by `get` just above, which is what both functions ask for.
        let (memory, major, minor) = unsafe {
            (
                result::device::total_mem(device)?,
                result::device::get_attribute(device, MAJOR)?,
                result::device::get_attribute(device, MINOR)?,
            )
        };
        devices.push(CudaDevice {
            name: result::device::get_name(device)?,
            memory_bytes: memory as u64,
            compute_capability: [major, minor],
        });
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_machine_there_is_a_device_or_a_reason() {
        let report = CudaReport::examine();
        assert_eq!(report.devices.is_empty(), report.problem.is_some(), "{report:?}");
        assert!(!report.text().is_empty());
    }
}
