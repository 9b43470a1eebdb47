// Generated from the OpenAPI document by tools/clients; change that, and run make generate.
use reqwest::blocking::{multipart, Client, RequestBuilder, Response};
use reqwest::Method;
use serde::{Deserialize, Serialize};

/// The input that a file is a changed version of.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FileOrigin {
    pub id: String,
    pub storage_session_id: String,
}

/// A file of a session.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct File {
    pub id: String,
    pub name: String,
    #[serde(rename = "contentType")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherited: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_from: Option<FileOrigin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CodeRun {
    pub code: String,
    pub lang: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<File>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_session_hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
}

/// Counts changed files that could not be handed back.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ArtifactDelivery {
    pub attempted: i64,
    pub code: String,
    pub delivered: i64,
    pub failed: i64,
    pub status: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PolicyWarning {
    pub policy: String,
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CodeResult {
    pub code: Option<i64>,
    pub files: Vec<File>,
    pub message: Option<String>,
    pub session_id: String,
    pub signal: Option<String>,
    pub status: Option<String>,
    pub stderr: String,
    pub stdout: String,
    pub wall_time: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_delivery: Option<ArtifactDelivery>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_files: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_warnings: Option<Vec<PolicyWarning>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<i64>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Uploaded {
    pub filename: String,
    pub size: i64,
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(rename = "fileId")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_id: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct UploadReply {
    pub files: Vec<Uploaded>,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_session_id: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FileMetadata {
    #[serde(rename = "content-type")]
    pub content_type: String,
    #[serde(rename = "original-filename")]
    pub original_filename: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ListedFile {
    #[serde(rename = "contentType")]
    pub content_type: String,
    pub etag: String,
    pub id: String,
    #[serde(rename = "lastModified")]
    pub last_modified: String,
    pub metadata: FileMetadata,
    pub name: String,
    pub session_id: String,
    pub size: i64,
    pub storage_session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Error {
    pub error: serde_json::Value,
    pub message: String,
    pub status: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<i64>,
}

pub struct Caisson {
    http: Client,
    base: String,
    key: String,
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

impl Caisson {
    pub fn new(server: &str, key: &str) -> Outcome<Self> {
        // A program may run for minutes: nothing here times out before the server does.
        let http = Client::builder().timeout(None).build()?;
        Ok(Self { http, base: format!("{server}/v1"), key: key.into() })
    }

    fn call(&self, method: Method, path: &[&str], with: impl FnOnce(RequestBuilder) -> RequestBuilder) -> Outcome<Response> {
        let mut url = reqwest::Url::parse(&self.base)?;
        url.path_segments_mut().map_err(|()| "no base")?.extend(path);
        let reply = with(self.http.request(method, url).header("X-API-Key", &self.key)).send()?;
        let status = reply.status();
        if status.is_success() {
            return Ok(reply);
        }
        let refused: Error = reply.json()?;
        Err(format!("{} ({status} {})", refused.message, refused.code.unwrap_or_default()).into())
    }

    /// Run a program and hand back its output and the files that it made.
    pub fn run_code(&self, run: &CodeRun) -> Outcome<CodeResult> {
        Ok(self.call(Method::POST, &["exec"], |r| r.json(run))?.json()?)
    }

    /// Store the files of a form in one session, all or none.
    pub fn upload_file(&self, name: &str, content: Vec<u8>, session: Option<&str>) -> Outcome<UploadReply> {
        let mut form = multipart::Form::new();
        if let Some(id) = session {
            form = form.text("session_id", id.to_owned()); // fields come before files
        }
        let form = form.part("file", multipart::Part::bytes(content).file_name(name.to_owned()));
        Ok(self.call(Method::POST, &["upload"], |r| r.multipart(form))?.json()?)
    }

    /// List the files of a session.
    pub fn list_files(&self, sid: &str) -> Outcome<Vec<ListedFile>> {
        Ok(self.call(Method::GET, &["files", sid], |r| r)?.json()?)
    }

    /// Read a file.
    pub fn download_file(&self, sid: &str, fid: &str) -> Outcome<Vec<u8>> {
        Ok(self.call(Method::GET, &["download", sid, fid], |r| r)?.bytes()?.to_vec())
    }

    /// Delete a file.
    pub fn delete_file(&self, sid: &str, fid: &str) -> Outcome<()> {
        self.call(Method::DELETE, &["files", sid, fid], |r| r).map(|_| ())
    }
}

const PROGRAM: &str = r#"
numbers = [int(n) for n in open("numbers.csv").read().split(",")]
print("sum", sum(numbers))
open("squares.txt", "w").write(" ".join(str(n * n) for n in numbers))
"#;

fn main() -> Outcome<()> {
    let server = std::env::var("CAISSON_URL").unwrap_or("http://127.0.0.1:8080".into());
    let caisson = Caisson::new(&server, &std::env::var("CODE_EXEC_API_KEY")?)?;
    let stored = caisson.upload_file("numbers.csv", b"1,2,3\n".to_vec(), None)?;
    let result = caisson.run_code(&CodeRun {
        lang: "py".into(),
        code: PROGRAM.into(),
        session_id: stored.session_id,
        ..Default::default()
    })?;
    println!("{}", result.stdout.trim());
    for file in &result.files {
        let content = caisson.download_file(&result.session_id, &file.id)?;
        println!("{} {}", file.name, String::from_utf8_lossy(&content));
    }
    let first = stored.files[0].file_id.as_deref().ok_or("not stored")?;
    caisson.delete_file(&result.session_id, first)?;
    for file in caisson.list_files(&result.session_id)? {
        println!("{}", file.metadata.original_filename);
    }
    Ok(())
}
