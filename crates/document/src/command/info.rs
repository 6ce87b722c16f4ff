//! Commands that tell about the program, the machine and the client.

use super::call::{Call, Reply};
use super::commands::Command;
use super::host;
use super::parse::wrong_type;
use super::reply::count;
use super::spec::{Privilege, Target};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{DOCUMENT_BYTES_MAX, DocumentBuilder, Kind, Value};

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("buildInfo", Target::Value(&[]), "Tells the version.", build_info)
        .aliases(&["buildinfo"])
        .needs_nothing(),
    Command::new("hostInfo", Target::Value(&[]), "Tells about the machine.", host_info)
        .needs(&[Privilege::on_cluster("hostInfo")]),
    Command::new("getLog", Target::Value(&[]), "Gives the last lines of a log.", get_log)
        .needs(&[Privilege::on_cluster("getLog")])
        .admin_only(),
    Command::new("whatsmyuri", Target::Value(&[]), "Tells the address of the client.", address)
        .any_fields()
        .needs_nothing(),
];

fn build_info(call: &Call<'_>) -> Result<Reply> {
    let version = &call.state.options.version;
    let mut reply = Reply::new();
    reply.append("version", version).append("gitVersion", env!("CARGO_PKG_VERSION"));
    reply.open_array("modules").close();
    reply.append("allocator", "system").append("javascriptEngine", "none").append("sysInfo", "deprecated");
    reply.open_array("versionArray");
    for part in version.split(['.', '-']).take(3) {
        reply.push(part.parse::<i32>().unwrap_or_default());
    }
    reply.push(0).close();
    reply.open_document("openssl").append("running", "none").append("compiled", "none").close();
    reply.open_document("buildEnvironment").append("target_arch", std::env::consts::ARCH);
    reply.append("target_os", std::env::consts::OS).close();
    reply.append("bits", 64).append("debug", cfg!(debug_assertions));
    reply.append("maxBsonObjectSize", i32::try_from(DOCUMENT_BYTES_MAX).unwrap_or(i32::MAX));
    reply.open_array("storageEngines").push("spinney").close();
    reply.append("spinney", env!("CARGO_PKG_VERSION"));
    Ok(reply)
}

fn host_info(call: &Call<'_>) -> Result<Reply> {
    let mut reply = Reply::new();
    let cores = std::thread::available_parallelism().map_or(1, |cores| i32::try_from(cores.get()).unwrap_or(i32::MAX));
    let memory = i64::try_from(host::memory_bytes() >> 20).unwrap_or(i64::MAX);
    reply.open_document("system").append("currentTime", Value::DateTime(call.state.now_ms()));
    reply.append("hostname", &host::name()).append("cpuAddrSize", 64);
    reply.append("memSizeMB", memory).append("memLimitMB", memory);
    reply.append("numCores", cores).append("numCoresAvailableToProcess", cores).append("numPhysicalCores", cores);
    reply.append("numCpuSockets", 1).append("cpuArch", std::env::consts::ARCH);
    reply.append("numaEnabled", false).append("numNumaNodes", 1).close();
    let kernel = host::kernel();
    reply.open_document("os").append("type", host::system_name()).append("name", host::system_name());
    reply.append("version", &kernel).close();
    reply.open_document("extra").append("versionString", &host::version()).append("libcVersion", "");
    reply.append("kernelVersion", &kernel).append("cpuString", &host::processor());
    reply.append("pageSize", 4096_i64).close();
    Ok(reply)
}

fn get_log(call: &Call<'_>) -> Result<Reply> {
    let first = call.request.body.first().map_or(Value::Null, |first| first.value);
    if first.is_nullish() {
        let what = "BSON field 'getLog.getLog' is missing but a required field";
        return Err(Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what));
    }
    let mut reply = Reply::new();
    match first.as_str() {
        None => return Err(wrong_type("getLog.getLog", &first, &[Kind::String])),
        Some("*") => {
            reply.open_array("names").push("global").push("startupWarnings").close();
        }
        Some("startupWarnings") => {
            let (lines, total) = call.state.startup_warnings.list();
            reply.append("totalLinesWritten", count(total)).open_array("log");
            lines.iter().for_each(|line| {
                reply.push(line.as_str());
            });
            reply.close();
        }
        Some("global") => {
            let mut line = DocumentBuilder::new();
            line.append("t", Value::DateTime(call.state.started_ms)).append("s", "I").append("c", "CONTROL");
            line.append("id", 0).append("ctx", "server").append("msg", "The service of commands began");
            line.open_document("attr").close();
            let (lines, total) = call.state.lines.list();
            reply.append("totalLinesWritten", count(total + 1)).open_array("log");
            reply.push(&line.finish().view().to_json());
            lines.iter().for_each(|line| {
                reply.push(line.as_str());
            });
            reply.close();
        }
        Some(name) => {
            return Err(Error::new(ErrorCode::OPERATION_FAILED, format!("No log named '{name}'")));
        }
    }
    Ok(reply)
}

fn address(call: &Call<'_>) -> Result<Reply> {
    let mut reply = Reply::new();
    reply.append("you", &call.request.client.address);
    Ok(reply)
}
