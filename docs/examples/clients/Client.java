// Generated from the OpenAPI document by tools/clients; change that, and run make generate.
import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.UUID;

public class Client {
    /** The input that a file is a changed version of. */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record FileOrigin(
            @JsonProperty("id") String id,
            @JsonProperty("storage_session_id") String storageSessionId) {}

    /** A file of a session. */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record File(
            @JsonProperty("id") String id,
            @JsonProperty("name") String name,
            @JsonProperty("contentType") String contentType,
            @JsonProperty("entity_id") String entityId,
            @JsonProperty("inherited") Boolean inherited,
            @JsonProperty("kind") String kind,
            @JsonProperty("modified_from") FileOrigin modifiedFrom,
            @JsonProperty("resource_id") String resourceId,
            @JsonProperty("session_id") String sessionId,
            @JsonProperty("size") Long size,
            @JsonProperty("storage_session_id") String storageSessionId,
            @JsonProperty("version") Long version) {}

    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record CodeRun(
            @JsonProperty("code") String code,
            @JsonProperty("lang") String lang,
            @JsonProperty("args") List<String> args,
            @JsonProperty("entity_id") String entityId,
            @JsonProperty("files") List<File> files,
            @JsonProperty("runtime_session_hint") String runtimeSessionHint,
            @JsonProperty("session_id") String sessionId,
            @JsonProperty("timeout") Long timeout,
            @JsonProperty("user_id") String userId) {}

    /** Counts changed files that could not be handed back. */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record ArtifactDelivery(
            @JsonProperty("attempted") Long attempted,
            @JsonProperty("code") String code,
            @JsonProperty("delivered") Long delivered,
            @JsonProperty("failed") Long failed,
            @JsonProperty("status") String status) {}

    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record PolicyWarning(
            @JsonProperty("policy") String policy,
            @JsonProperty("reason") String reason,
            @JsonProperty("code") String code) {}

    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record CodeResult(
            @JsonProperty("code") Long code,
            @JsonProperty("files") List<File> files,
            @JsonProperty("message") String message,
            @JsonProperty("session_id") String sessionId,
            @JsonProperty("signal") String signal,
            @JsonProperty("status") String status,
            @JsonProperty("stderr") String stderr,
            @JsonProperty("stdout") String stdout,
            @JsonProperty("wall_time") Long wallTime,
            @JsonProperty("artifact_delivery") ArtifactDelivery artifactDelivery,
            @JsonProperty("deleted_files") List<String> deletedFiles,
            @JsonProperty("error") Object error,
            @JsonProperty("policy_warnings") List<PolicyWarning> policyWarnings,
            @JsonProperty("retry_after_seconds") Long retryAfterSeconds) {}

    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record Uploaded(
            @JsonProperty("filename") String filename,
            @JsonProperty("size") Long size,
            @JsonProperty("status") String status,
            @JsonProperty("error") String error,
            @JsonProperty("fileId") String fileId) {}

    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record UploadReply(
            @JsonProperty("files") List<Uploaded> files,
            @JsonProperty("message") String message,
            @JsonProperty("code") String code,
            @JsonProperty("error") String error,
            @JsonProperty("session_id") String sessionId,
            @JsonProperty("status") Long status,
            @JsonProperty("storage_session_id") String storageSessionId) {}

    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record FileMetadata(
            @JsonProperty("content-type") String contentType,
            @JsonProperty("original-filename") String originalFilename) {}

    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record ListedFile(
            @JsonProperty("contentType") String contentType,
            @JsonProperty("etag") String etag,
            @JsonProperty("id") String id,
            @JsonProperty("lastModified") String lastModified,
            @JsonProperty("metadata") FileMetadata metadata,
            @JsonProperty("name") String name,
            @JsonProperty("session_id") String sessionId,
            @JsonProperty("size") Long size,
            @JsonProperty("storage_session_id") String storageSessionId,
            @JsonProperty("read_only") Boolean readOnly) {}

    @JsonInclude(JsonInclude.Include.NON_NULL)
    public record Error(
            @JsonProperty("error") Object error,
            @JsonProperty("message") String message,
            @JsonProperty("status") Long status,
            @JsonProperty("code") String code,
            @JsonProperty("request_id") String requestId,
            @JsonProperty("retry_after_seconds") Long retryAfterSeconds) {}

    private final HttpClient http = HttpClient.newHttpClient();
    private final ObjectMapper json = new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    private final String base;
    private final String key;

    public Client(String server, String key) {
        this.base = server + "/v1";
        this.key = key;
    }

    private byte[] call(String method, String path, BodyPublisher body, String contentType) throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(base + path)).method(method, body).header("X-API-Key", key);
        if (contentType != null) request.header("Content-Type", contentType);
        var reply = http.send(request.build(), BodyHandlers.ofByteArray());
        if (reply.statusCode() / 100 != 2) {
            var refused = json.readValue(reply.body(), Error.class);
            throw new IOException(refused.message() + " (" + reply.statusCode() + " " + refused.code() + ")");
        }
        return reply.body();
    }

    private static String segment(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    /** Run a program and hand back its output and the files that it made. */
    public CodeResult runCode(CodeRun run) throws IOException, InterruptedException {
        var body = BodyPublishers.ofByteArray(json.writeValueAsBytes(run));
        return json.readValue(call("POST", "/exec", body, "application/json"), CodeResult.class);
    }

    /** Store the files of a form in one session, all or none. */
    public UploadReply uploadFile(String name, byte[] content, String session) throws IOException, InterruptedException {
        var boundary = UUID.randomUUID().toString();
        var body = new ByteArrayOutputStream();
        if (session != null) { // fields come before files
            body.writeBytes(("--" + boundary + "\r\nContent-Disposition: form-data; name=\"session_id\"\r\n\r\n" + session + "\r\n")
                    .getBytes(StandardCharsets.UTF_8));
        }
        var quoted = name.replace("\\", "\\\\").replace("\"", "\\\"");
        body.writeBytes(("--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + quoted + "\"\r\n\r\n")
                .getBytes(StandardCharsets.UTF_8));
        body.writeBytes(content);
        body.writeBytes(("\r\n--" + boundary + "--\r\n").getBytes(StandardCharsets.UTF_8));
        var publisher = BodyPublishers.ofByteArray(body.toByteArray());
        return json.readValue(
                call("POST", "/upload", publisher, "multipart/form-data; boundary=" + boundary), UploadReply.class);
    }

    /** List the files of a session. */
    public List<ListedFile> listFiles(String sid) throws IOException, InterruptedException {
        return json.readValue(call("GET", "/files/" + segment(sid), BodyPublishers.noBody(), null), new TypeReference<>() {});
    }

    /** Read a file. */
    public byte[] downloadFile(String sid, String fid) throws IOException, InterruptedException {
        return call("GET", "/download/" + segment(sid) + "/" + segment(fid), BodyPublishers.noBody(), null);
    }

    /** Delete a file. */
    public void deleteFile(String sid, String fid) throws IOException, InterruptedException {
        call("DELETE", "/files/" + segment(sid) + "/" + segment(fid), BodyPublishers.noBody(), null);
    }

    private static final String PROGRAM = """
            numbers = [int(n) for n in open("numbers.csv").read().split(",")]
            print("sum", sum(numbers))
            open("squares.txt", "w").write(" ".join(str(n * n) for n in numbers))
            """;

    public static void main(String[] args) throws Exception {
        var server = System.getenv().getOrDefault("CAISSON_URL", "http://127.0.0.1:8080");
        var caisson = new Client(server, System.getenv("CODE_EXEC_API_KEY"));
        var stored = caisson.uploadFile("numbers.csv", "1,2,3\n".getBytes(StandardCharsets.UTF_8), null);
        var result = caisson.runCode(
                new CodeRun(PROGRAM, "py", null, null, null, null, stored.sessionId(), null, null));
        System.out.println(result.stdout().strip());
        for (var file : result.files()) {
            var content = caisson.downloadFile(result.sessionId(), file.id());
            System.out.println(file.name() + " " + new String(content, StandardCharsets.UTF_8));
        }
        caisson.deleteFile(result.sessionId(), stored.files().get(0).fileId());
        for (var file : caisson.listFiles(result.sessionId())) {
            System.out.println(file.metadata().originalFilename());
        }
    }
}
