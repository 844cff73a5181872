//! The server: from calls of the protocol to answers.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::arguments::{self, CompareArguments, FunctionArguments, VerdictArguments};
use super::bounded;
use super::error::Refusal;
use super::folder::Folder;
use super::run::Runner;
use super::tools::Tool;
use super::{questions, source};

const INSTRUCTIONS: &str = "rprof finds what holds a program down and what a change would save. Call profile with the program, or verdict if there is \
    a profile; then source and explain for the function that it names. After a change, profile again under another output and compare. Figures are in base SI \
    units; each has its source and error, and what was not measured is null, never 0.";

/// What a client can call.
#[derive(Debug, Clone)]
pub struct Server {
    folder: Folder,
    runner: Arc<Runner>,
}

impl Server {
    /// A server of `folder`.
    pub fn new(folder: Folder, runner: Arc<Runner>) -> Server {
        Server { folder, runner }
    }

    /// The answer of a tool, of bounded length.
    fn answer(&self, tool: Tool, given: Option<JsonObject>) -> Result<String, Refusal> {
        let name = tool.name();
        let (answer, limit) = match tool {
            Tool::Profile => {
                let given: arguments::ProfileArguments = arguments::read(name, given)?;
                (self.runner.profile(&self.folder, &given)?, given.max_bytes)
            }
            Tool::Verdict => {
                let given: VerdictArguments = arguments::read(name, given)?;
                (questions::verdict(&self.folder, &given.profile)?, given.max_bytes)
            }
            Tool::Explain => {
                let given: FunctionArguments = arguments::read(name, given)?;
                (questions::explain(&self.folder, &given)?, given.max_bytes)
            }
            Tool::Source => {
                let given: FunctionArguments = arguments::read(name, given)?;
                (source::lines(&self.folder, &given)?, given.max_bytes)
            }
            Tool::Ceilings => {
                let given: arguments::CeilingsArguments = arguments::read(name, given)?;
                (questions::ceilings(&self.folder, &given)?, given.max_bytes)
            }
            Tool::Compare => {
                let given: CompareArguments = arguments::read(name, given)?;
                (questions::compare(&self.folder, &given)?, given.max_bytes)
            }
            Tool::Gate => {
                let given: CompareArguments = arguments::read(name, given)?;
                (questions::gate(&self.folder, &given)?, given.max_bytes)
            }
        };
        Ok(bounded::text(answer, limit.0))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let own = Implementation::new("rprof", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(own).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(Tool::ALL.map(Tool::described).to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = Tool::named(&request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool {}", request.name), None));
        };
        let server = self.clone();
        // Programs run for minutes, and large profiles take a second to read: other calls are answered meanwhile.
        let answered = tokio::task::spawn_blocking(move || server.answer(tool, request.arguments)).await;
        let result = match answered {
            Ok(Ok(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Ok(Err(refusal)) => CallToolResult::error(vec![ContentBlock::text(refusal.0)]),
            Err(error) => return Err(ErrorData::internal_error(error.to_string(), None)),
        };
        Ok(result.into())
    }
}
